from dataclasses import replace

import numpy as np
import pytest
import torch

from parafair import FairCP, SensitiveFeatures, TensorData
from parafair.errors import Interrupted
from parafair.model.preparation import Settings
from parafair.penalties import Invariant
from parafair.solvers import Status, Stop, decompose_from, sampling
from parafair.solvers.sampling import carry_over, solve_sample, take_sample


@pytest.fixture
def task(monkeypatch):
    """500 people, of whom ten have no entries and ten no group; a sample has 120."""
    monkeypatch.setattr(sampling, "SAMPLE", 120)
    random = np.random.default_rng(0)
    groups = np.array(["a", "b"], dtype=object)[random.integers(0, 2, 500)]
    matrix = random.standard_normal((500, 5)) @ random.standard_normal((5, 12))
    matrix += 3 * (groups == "a")[:, None] * random.standard_normal(12)
    matrix[:10] = np.nan
    groups[10:20] = None
    model = FairCP(rank=3, method=Invariant(30.0, chunk_size=100), ridge=0.1)
    return Settings.of(model).bind(
        TensorData.from_array(matrix), SensitiveFeatures.of(groups, missing="exclude")
    )


def test_a_sample_is_some_of_the_penalized_people_with_their_entries(task):
    places, few = take_sample(task.problem, 120)
    assert len(places) == 120
    assert set(places.tolist()) <= set(task.problem.penalized.tolist())
    torch.testing.assert_close(few.data.entries, task.problem.data.take(0, places).entries)
    assert few.penalized is None
    assert not few.in_chunks


def test_the_sample_keeps_its_rows_and_others_move_like_their_neighbors(task):
    problem = task.problem
    places, few = take_sample(problem, 120)
    plain = task.fit_plain()
    rows = plain.cp.factors[0]
    moved = list(plain.cp.factors)
    shift = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    moved[0] = rows[places] + shift  # the same for everybody
    fit = replace(plain, cp=replace(plain.cp, factors=tuple(moved)))
    found = carry_over(problem, fit, places, few.penalized_features).cp.factors[0]
    torch.testing.assert_close(found[places], rows[places] + shift)
    torch.testing.assert_close(
        problem.penalized_rows(found), problem.penalized_rows(rows) + shift, rtol=0, atol=1e-3
    )
    torch.testing.assert_close(found[10:20], rows[10:20], rtol=0, atol=1e-3)


@pytest.mark.slow
def test_a_fit_to_a_sample_is_a_better_start_for_a_strong_penalty(task):
    problem = task.problem.with_strengths(torch.tensor([300.0], dtype=torch.float64))
    plain = task.fit_plain()
    (start,) = solve_sample(problem, task.settings.solver, plain=[plain], stop=Stop())
    carried, before = (
        float(problem.evaluate([factor[None] for factor in fit.cp.factors]).value)
        for fit in (start, plain)
    )
    assert carried < before


@pytest.mark.slow
def test_many_people_begin_at_the_sample_or_at_the_plain_decomposition(task, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "parafair.solvers.contest_of_many.solve_sample",
        lambda *args, **settings: seen.append(1) or solve_sample(*args, **settings),
    )
    settings = {"plain": [task.fit_plain()], "stop": Stop(max_iter=20)}
    decompose_from(task.problem, task.settings.solver, **settings)
    assert not seen
    monkeypatch.setattr("parafair.solvers.contest_of_many.LEAST_PEOPLE", 400)
    (fit,) = decompose_from(task.problem, task.settings.solver, **settings)
    assert seen
    assert fit.counts["rough iterations"] > 0
    problem = task.problem.with_strengths(torch.tensor([0.0], dtype=torch.float64))
    (fit,) = decompose_from(problem, task.settings.solver, **settings)
    assert fit.residual <= settings["plain"][0].residual * (1 + 1e-4)


def interrupt(*_):
    raise KeyboardInterrupt


def test_an_interrupted_sample_leaves_the_plain_decomposition_of_everybody(task, monkeypatch):
    monkeypatch.setattr("parafair.solvers.contest_of_many.LEAST_PEOPLE", 400)
    plain = task.fit_plain()
    with pytest.raises(Interrupted, match="the embedding is that of a plain") as caught:
        decompose_from(
            task.problem,
            task.settings.solver,
            plain=[plain],
            stop=Stop(),
            on_iteration=interrupt,
        )
    assert caught.value.strength == 0
    assert caught.value.fit.status is Status.INTERRUPTED
    assert torch.equal(caught.value.fit.cp.factors[0], plain.cp.factors[0])


@pytest.mark.slow
@pytest.mark.parametrize("strength", [100.0, "auto"])
def test_a_model_of_many_people_keeps_a_fit_whenever_it_is_interrupted(strength):
    random = np.random.default_rng(0)
    groups = random.integers(0, 2, 4000)
    matrix = random.standard_normal((4000, 3)) @ random.standard_normal((3, 6))
    matrix += groups[:, None] * random.standard_normal(6)
    for last in (1, 5, 20, 40):

        def stop(number, objective, last=last):
            if number == last:
                raise KeyboardInterrupt

        model = FairCP(2, strength=strength, random_state=0)
        with pytest.raises(Interrupted, match="interrupted after"):
            model.fit(matrix, sensitive_features=groups, on_iteration=stop)
        assert model.embedding_.shape == (4000, 2)
        assert model.fit_.status is Status.INTERRUPTED
