import numpy as np
import pandas as pd
import pytest
import torch

from parafair import (
    FairCP,
    ParafairWarning,
    Problem,
    SensitiveFeatures,
    TensorData,
    frontier,
    parity_limit,
)
from parafair.penalties import Transport
from parafair.solvers import repair
from parafair.solvers.decomposition import Decomposition

RANK = 3


def example(*sizes, noise=0.0, seed=0):
    """A tensor of rank 3 with people in groups of these sizes, and their groups."""
    random = np.random.default_rng(seed)
    groups = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    people = random.standard_normal((len(groups), RANK)) * (1 + 0.4 * groups[:, None])
    people[:, 0] += groups
    others = [random.standard_normal((size, RANK)) for size in (9, 7)]
    tensor = np.einsum("ir,jr,kr->ijk", people, *others)
    return tensor + noise * random.standard_normal(tensor.shape), groups


def fit(tensor, groups, rank=RANK, **settings):
    model = FairCP(rank, method="transport", **settings)
    return model.fit(tensor, sensitive_features=groups)


def places(embedding, groups):
    """For each group, its distinct rows."""
    return [set(map(tuple, embedding[groups == group].tolist())) for group in np.unique(groups)]


def test_equal_groups_have_the_same_rows_at_the_limit():
    tensor, groups = example(30, 30)
    model = fit(tensor, groups, tol=1e-8)
    one, two = (model.embedding_[groups == group] for group in (0, 1))
    np.testing.assert_array_equal(one[np.lexsort(one.T)], two[np.lexsort(two.T)])
    limit = parity_limit(tensor, sensitive_features=groups)
    # The rank suffices, so the least-squares rows are the data and the limit is attained.
    assert model.fit_.residual == pytest.approx(limit.residual, rel=1e-4)
    assert model.fit_.history[-1].residual > model.fit_.history[-2].residual


@pytest.mark.parametrize("sizes", [(15, 45), (7, 8, 10)])
def test_other_groups_are_at_the_limit_on_average_over_the_draw(sizes):
    tensor, groups = example(*sizes)
    sensitive = SensitiveFeatures.of(groups)
    problem = Problem(TensorData.from_array(tensor), RANK, sensitive=sensitive)
    plain = FairCP(RANK, method="none", tol=1e-9).fit(tensor)
    factors = tuple(factor[None] for factor in plain.cp_.factors)
    found = Decomposition(problem, factors)
    codes = sensitive.joint(1).values
    losses = [Transport(seed)._repair(found, codes).loss for seed in range(40)]
    squared = np.mean(losses) * tensor.size / np.square(tensor).sum()
    limit = parity_limit(tensor, sensitive_features=groups)
    # Four standard errors of the mean over the draws.
    error = 4 * np.std(losses) / np.mean(losses) / np.sqrt(len(losses))
    assert limit.residual**2 * (1 - error) < squared < limit.upper**2 * (1 + error)


def test_unequal_groups_share_their_places():
    tensor, groups = example(15, 45)
    few, many = places(fit(tensor, groups).embedding_, groups)
    assert len(few & many) >= 10


def test_attackers_who_see_one_row_know_nothing():
    tensor, groups = example(60, 60, noise=0.1)
    embedding = fit(tensor, groups).embedding_
    for moment in (1, 2, 3):
        means = [np.mean(embedding[groups == g] ** moment, axis=0) for g in (0, 1)]
        np.testing.assert_allclose(*means, rtol=1e-9)


def test_missing_entries_do_not_break_parity():
    tensor, groups = example(30, 30, noise=0.1)
    tensor[np.random.default_rng(1).random(tensor.shape) < 0.4] = np.nan
    tensor[3] = np.nan
    with pytest.warns(ParafairWarning, match="no observed entries for 1 of 60"):
        model = fit(tensor, groups, ridge=0.5)
    groups[3] = -1
    _, one, two = places(model.embedding_, groups)
    smaller = min(len(one), len(two))
    assert smaller == min((groups == 0).sum(), (groups == 1).sum())
    # One group lost a person, so people are split, and one match of each is drawn.
    assert len(one & two) > smaller / 2
    assert np.isfinite(model.embedding_).all()
    assert model.fit_.residual < 1


def test_matched_people_with_missing_entries_get_their_common_least_squares_row():
    tensor, groups = example(12, 12, noise=0.1)
    tensor[np.random.default_rng(1).random(tensor.shape) < 0.3] = np.nan
    model = fit(tensor, groups, ridge=0.0)
    embedding, (_, second, third) = model.embedding_, model.cp_.factors
    rows = np.einsum("jr,kr->jkr", second, third).reshape(-1, RANK)
    for person in np.flatnonzero(groups == 0)[:4]:
        same = (embedding == embedding[person]).all(1)
        assert same.sum() == 2
        target = tensor[same].reshape(2, -1)
        kept = np.isfinite(target)
        design = np.concatenate([rows[seen] for seen in kept])
        expected = np.linalg.lstsq(design, target[kept], rcond=None)[0]
        np.testing.assert_allclose(embedding[person], expected, rtol=1e-6, atol=1e-8)


def test_a_batch_equals_its_members():
    tensor, groups = example(12, 18, noise=0.2)
    batch = fit(tensor, groups, n_init=3, random_state=4)
    problem = Problem(TensorData.from_array(tensor), RANK, sensitive=SensitiveFeatures.of(groups))
    assert len(batch.fits_) == 3
    for found in batch.fits_:
        judged = problem.evaluate([factor[None] for factor in found.cp.factors])
        assert found.residual == pytest.approx(float(judged.residual))
    np.testing.assert_array_equal(
        batch.embedding_, fit(tensor, groups, n_init=3, random_state=4).embedding_
    )


def test_the_rows_are_a_repair_for_the_other_factors_returned():
    tensor, groups = example(20, 20, noise=0.5)
    model = fit(tensor, groups, rank=2)
    problem = Problem(TensorData.from_array(tensor), 2, sensitive=SensitiveFeatures.of(groups))
    found = Decomposition(problem, tuple(factor[None] for factor in model.cp_.factors))
    again = Transport()._repair(found, groups)
    torch.testing.assert_close(again.rows, found.rows, rtol=1e-6, atol=1e-8)


def test_refitting_lowers_the_loss():
    tensor, groups = example(25, 25, noise=0.3)
    problem = Problem(TensorData.from_array(tensor), 2, sensitive=SensitiveFeatures.of(groups))
    plain = FairCP(2, method="none").fit(tensor)
    found = Decomposition(problem, tuple(factor[None] for factor in plain.cp_.factors))
    once = Transport()._repair(found, groups)
    assert found.loss < Transport().apply(found).loss < once.loss


@pytest.mark.parametrize("batched", [False, True])
def test_a_repair_is_a_start_for_penalized_fits(batched):
    tensor, groups = example(20, 20)
    plain = FairCP(RANK, method="none").fit(tensor)
    problem = Problem(TensorData.from_array(tensor), RANK, sensitive=SensitiveFeatures.of(groups))
    given = tuple(factor[None] if batched else factor for factor in plain.cp_.factors)
    before = [factor.clone() for factor in given]
    repaired = repair(problem, given, transport=Transport(seed=2))
    assert [factor.shape for factor in repaired] == [factor.shape for factor in given]
    assert all(map(torch.equal, given, before))
    one, two = places(repaired[0].reshape(-1, RANK).numpy(), groups)
    assert one == two
    start = FairCP(RANK, strength=100.0, init=[f.reshape(-1, RANK) for f in repaired], max_iter=5)
    with pytest.warns(ParafairWarning, match="did not converge"):
        start.fit(tensor, sensitive_features=groups)
    assert start.fit_.history[0].residual == pytest.approx(
        float(problem.evaluate([f.reshape(1, -1, RANK) for f in repaired]).residual), rel=1e-3
    )


def test_a_repair_without_features_is_refused():
    tensor, _ = example(5, 5)
    problem = Problem(TensorData.from_array(tensor), RANK)
    with pytest.raises(ValueError, match="a repair needs sensitive features"):
        repair(problem, [torch.ones(size, RANK).double() for size in tensor.shape])


def test_several_columns_are_repaired_together():
    tensor, groups = example(24, 24)
    table = pd.DataFrame({"group": groups, "half": np.tile(["a", "b"], 24)})
    model = fit(tensor, table)
    combined = table["group"].astype(str) + table["half"]
    sizes = combined.value_counts()
    found = places(model.embedding_, combined.to_numpy())
    assert len(found) == len(sizes) == 4
    everywhere = set.union(*found)
    assert len(everywhere) < len(groups)


def test_people_without_features_keep_their_least_squares_rows():
    tensor, groups = example(20, 20)
    given = groups.astype(object)
    given[[2, 5]] = None
    sensitive = SensitiveFeatures.of(given, missing="exclude")
    model = fit(tensor, sensitive)
    np.testing.assert_allclose(model.embedding_[[2, 5]], model.fit_.plain[[2, 5]], atol=1e-8)


@pytest.mark.parametrize("sizes", [(1, 20), (2, 20), (1, 1, 20), (4, 4, 4, 4, 4)])
@pytest.mark.filterwarnings("ignore:sensitive feature 'sensitive' has groups of one or two")
def test_tiny_groups_and_more_groups_than_components(sizes):
    tensor, groups = example(*sizes, noise=0.1)
    model = fit(tensor, groups)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.fit_.residual)


@pytest.mark.parametrize("kind", ["constant", "duplicated", "apart", "one component"])
def test_degenerate_data_gives_finite_rows(kind):
    tensor, groups = example(10, 14)
    tensor = {
        "constant": np.ones_like(tensor),
        "duplicated": tensor[np.arange(len(tensor)) % 3],
        "apart": tensor + 1e3 * groups[:, None, None],
        "one component": np.einsum("i,j,k->ijk", *(np.arange(1.0, n + 1) for n in tensor.shape)),
    }[kind]
    model = fit(tensor, groups, rank=4)
    assert all(factor.isfinite().all() for factor in model.cp_.factors)
    assert model.fit_.residual < 1


def test_single_precision_stays():
    tensor, groups = example(12, 12)
    model = fit(tensor.astype(np.float32), groups)
    assert model.embedding_.dtype == np.float32
    one, two = places(model.embedding_, groups)
    assert one == two


def test_numbers_are_refused_before_the_fit():
    tensor, _ = example(15, 15)
    with pytest.raises(
        ValueError,
        match="method='transport' needs groups, but sensitive feature 'age' is numeric; make it "
        "categorical, or use method='invariant'",
    ):
        fit(tensor, pd.DataFrame({"age": np.linspace(20, 60, 30)}))


def test_numbers_share_places_in_four_parts():
    tensor, _ = example(16, 16)
    ages = np.linspace(20, 60, 32)
    rows = FairCP(2, method=Transport(leakage=0.0)).fit_transform(tensor, sensitive_features=ages)
    found = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    parts = np.arange(32) // 8
    for place in np.unique(found):
        assert len(set(np.bincount(parts[found == place], minlength=4))) == 1


def test_too_many_groups_are_named():
    table = pd.DataFrame({"one": np.arange(400) % 11, "two": np.arange(400) % 10})
    table = table.astype(str)
    with pytest.raises(
        ValueError, match="at most 100 groups, but 'one x two' has 110, such as .* merge small"
    ):
        Transport().check(SensitiveFeatures.of(table))


def test_a_bad_seed_is_refused():
    with pytest.raises(
        ValueError, match="seed must be a whole number from 0 to 9223372036854775807"
    ):
        Transport(seed=-1)


def test_new_people_move_like_their_neighbors():
    tensor, groups = example(30, 30, noise=0.05)
    model = fit(tensor[:50], groups[:50])
    moved = model.transform(tensor[50:], sensitive_features=groups[50:])
    assert moved.shape == (10, RANK)
    assert np.isfinite(moved).all()


def test_the_seed_of_the_fit_decides_the_draw_unless_there_is_one():
    tensor, groups = example(15, 25)
    start = fit(tensor, groups).cp_.factors
    few = {"init": start, "max_iter": 1, "tol": 0}
    drawn = [fit(tensor, groups, random_state=seed, **few).embedding_ for seed in (0, 1, 1)]
    assert not np.allclose(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[1], drawn[2])
    own = [
        FairCP(RANK, method=Transport(seed=3), random_state=seed, **few)
        .fit(tensor, sensitive_features=groups)
        .embedding_
        for seed in (0, 1)
    ]
    np.testing.assert_array_equal(*own)


def test_a_frontier_draws_as_its_models_do():
    tensor, groups = example(15, 25)
    model = FairCP(RANK, method="transport", max_iter=5, tol=0)
    found = frontier(
        model, tensor, sensitive_features=groups, seeds=[0, 4], audits=None, limit=False
    )
    for point in found.points:
        alone = fit(tensor, groups, max_iter=5, tol=0, random_state=point.member.seed)
        # A batch differs from a single fit by rounding errors.
        np.testing.assert_allclose(found.model(point).embedding_, alone.embedding_, rtol=1e-6)
