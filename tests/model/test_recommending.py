import warnings

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, FairTucker, ParafairWarning, TensorData
from parafair.data.splits import fold_cells
from tests.reference.rankings import recommended

PEOPLE, ITEMS, DAYS = 12, 7, 3
NAMES = [f"p{i:02}" for i in range(PEOPLE)]
FILMS = list("abcdefg")
WEEK = ["fri", "sat", "sun"]


def ratings(*shape):
    random = np.random.default_rng(0)
    factors = [random.normal(size=(size, 2)) for size in shape]
    letters = "ijk"[: len(shape)]
    full = 3 + np.einsum(",".join(f"{c}r" for c in letters) + f"->{letters}", *factors)
    full[random.random(shape) < 0.5] = np.nan
    full[3] = 3.0  # somebody who has rated everything
    return full


@pytest.fixture(scope="module")
def films():
    """Ratings of films, by label; the people are the second mode."""
    values = ratings(PEOPLE, ITEMS).T
    return TensorData.from_array(values, modes=("film", "person"), labels=(FILMS, NAMES))


def fit(data, mode=0, model=FairCP, rank=2, **settings):
    settings = {"center": True, "ridge": 1.0, "tol": 1e-2, "random_state": 0, **settings}
    return model(rank, method="none", mode=mode, **settings).fit(data)


@pytest.fixture(scope="module")
def model(films):
    return fit(films, "person")


def expected(model, films, person, k):
    cells = pd.DataFrame({"film": FILMS, "person": [person] * ITEMS})
    rated = set(np.flatnonzero(~np.isnan(films.values[:, NAMES.index(person)].numpy())))
    return [FILMS[i] for i in recommended(model.predict(cells), rated, k)]


def test_the_highest_predictions_that_are_not_rated(model, films):
    wanted = ["p07", "p00", "p11"]
    found = model.recommend(wanted, 2)
    assert list(found.people) == np.repeat(wanted, 2).tolist()
    assert list(found.ranks) == [1, 2] * 3
    for person in wanted:
        assert list(found.labels[0][found.people == person]) == expected(model, films, person, 2)
    cells = pd.DataFrame({"film": found.labels[0], "person": found.people})
    np.testing.assert_allclose(found.scores, model.predict(cells))
    assert repr(found) == "Recommendations(film for 3 person, 6 rows)"
    frame = found.to_frame()
    assert list(frame.columns) == ["person", "rank", "film", "score"]
    single = model.recommend("p07", 2)
    assert list(single.labels[0]) == list(found.labels[0][:2])


def test_pandas_output_is_a_data_frame(films):
    model = fit(films, "person").set_output(transform="pandas")
    frame = model.recommend("p07", 2)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["person"]) == ["p07", "p07"]


def test_people_are_compared_in_chunks(model, monkeypatch):
    whole = model.recommend(k=ITEMS, exclude=None)
    monkeypatch.setattr("parafair.model.recommending.MOST_SCORES", 2 * ITEMS)
    parts = model.recommend(k=ITEMS, exclude=None)
    assert len(whole) == PEOPLE * ITEMS
    np.testing.assert_array_equal(whole.labels[0], parts.labels[0])
    np.testing.assert_allclose(whole.scores, parts.scores, rtol=1e-12)  # another order of sums


def test_whoever_has_rated_everything_gets_nothing_and_a_warning(model):
    with pytest.warns(ParafairWarning, match=r"1 of 2 people .* 1 of them empty ones: p03"):
        found = model.recommend(["p03", "p07"], 1)
    assert list(found.people) == ["p07"]
    with pytest.warns(ParafairWarning, match="1 of 1 people have fewer than 1 cells left"):
        assert len(model.recommend("p03", 1)) == 0
    assert len(model.recommend("p03", 1, exclude=None)) == 1


def test_other_cells_can_be_excluded(model, films):
    first = model.recommend("p07", 1, exclude=None)
    seen = pd.DataFrame({"film": first.labels[0], "person": ["p07"]})
    second = model.recommend("p07", 2, exclude=seen)
    assert first.labels[0][0] not in second.labels[0]
    same = model.recommend("p07", 2, exclude=films)
    assert list(same.labels[0]) == list(model.recommend("p07", 2).labels[0])


def test_a_loaded_model_needs_what_to_exclude(model, films, tmp_path):
    model.save(tmp_path / "model")
    loaded = FairCP.load(tmp_path / "model")
    assert loaded.training_.rated is None
    with pytest.raises(ValueError, match="was loaded does not have the entries it was fitted"):
        loaded.recommend("p07", 2)
    found = loaded.recommend("p07", 2, exclude=films)
    assert list(found.labels[0]) == list(model.recommend("p07", 2).labels[0])


def test_new_people_get_what_the_offsets_rank_first(model, films):
    with pytest.warns(ParafairWarning, match="1 of 2 people have fewer than 3 cells left .*: p07"):
        found = model.recommend(["nobody", "p07"], 3, unknown="offsets")
    offsets = model.training_.offsets
    best = np.argsort(-offsets.by_mode[0].numpy())[:3]
    assert list(found.labels[0][:3]) == [FILMS[i] for i in best]
    np.testing.assert_allclose(
        found.scores[:3], offsets.mean + np.sort(offsets.by_mode[0].numpy())[::-1][:3]
    )
    assert list(found.labels[0][3:]) == list(model.recommend("p07", 2).labels[0])
    # What new people have rated is known by their label.
    seen = pd.DataFrame({"film": found.labels[0][:1], "person": ["nobody"]})
    other = model.recommend("nobody", 1, exclude=seen, unknown="offsets")
    assert other.labels[0][0] == found.labels[0][1]


@pytest.mark.parametrize("kind", ["cp", "tucker"])
def test_combinations_of_a_tensor_or_one_mode_of_them(kind):
    values = ratings(PEOPLE, ITEMS, DAYS)
    data = TensorData.from_array(
        values, modes=("person", "film", "day"), labels=(NAMES, FILMS, WEEK)
    )
    model = fit(data) if kind == "cp" else fit(data, model=FairTucker, rank=(2, 2, 2),
                                               init="uniform")  # fmt: skip
    found = model.recommend("p05", 4)
    assert found.modes == ("film", "day")
    full = model.inverse_transform(model.embedding_)[5].flatten()
    rated = set(np.flatnonzero(~np.isnan(values[5].flatten())))
    best = np.unravel_index(recommended(full, rated, 4), (ITEMS, DAYS))
    assert list(found.labels[0]) == [FILMS[i] for i in best[0]]
    assert list(found.labels[1]) == [WEEK[i] for i in best[1]]
    sunday = model.recommend("p05", 2, given={"day": "sun"})
    assert sunday.modes == ("film",)
    rated = set(np.flatnonzero(~np.isnan(values[5, :, 2])))
    by_hand = recommended(full.reshape(ITEMS, DAYS)[:, 2], rated, 2)
    assert list(sunday.labels[0]) == [FILMS[i] for i in by_hand]


def test_positions_are_labels_of_a_model_without(films):
    model = fit(films.values.T.numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.recommend(np.array([7, 0]), 2)
    assert list(found.people) == [7, 7, 0, 0]


def test_probabilities_are_ranked_by_their_log_odds():
    events = (ratings(PEOPLE, ITEMS) > 3).astype(float)
    events[np.isnan(ratings(PEOPLE, ITEMS))] = np.nan
    model = fit(events, loss="bernoulli")
    found = model.recommend(0, 3)
    assert ((found.scores > 0) & (found.scores < 1)).all()
    assert (np.diff(found.scores) <= 0).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"people": "p99"}, ValueError, "mode 'person' has no label p99 .*unknown='offsets'"),
        ({"people": ["p00", "p00"]}, ValueError, "people has p00 more than once"),
        ({"people": []}, ValueError, "people must hold labels|people must have at least one"),
        ({"people": [None]}, ValueError, "people has a missing label"),
        ({"k": 0}, ValueError, "k must be a whole number of at least 1, got 0"),
        ({"k": -3}, ValueError, "k must be a whole number of at least 1, got -3"),
        ({"k": 2.5}, ValueError, "k must be a whole number"),
        ({"k": 8}, ValueError, "k must be at most 7, the number of film, got 8"),
        ({"given": {"day": "sun"}}, ValueError, "a mode of given must be one of film; got 'day'"),
        ({"given": {"film": "a"}}, ValueError, "given fixes film, so nothing is left"),
        ({"given": {"film": "zz"}}, ValueError, "mode 'film' has no label zz"),
        ({"given": "film"}, TypeError, "given must be a dictionary from names of modes"),
        ({"k": 1, "exclude": "rated"}, ValueError, "exclude must be 'training', None, or cells"),
        ({"unknown": "mean"}, ValueError, "unknown must be one of error, offsets"),
    ],
)
def test_bad_input_is_refused(model, arguments, error, message):
    with pytest.raises(error, match=message):
        model.recommend(**arguments)


def test_complete_data_leaves_nothing(films):
    model = fit(np.nan_to_num(films.values.numpy(), nan=1.0), ridge=0.0)
    with pytest.raises(ValueError, match="every cell of the training data is observed"):
        model.recommend(0, 1)
    assert len(model.recommend(0, 1, exclude=None)) == 1


def test_a_mode_may_not_be_called_like_a_column(films):
    renamed = TensorData.from_array(films.values, modes=("score", "person"))
    with pytest.raises(ValueError, match="a mode is called 'score', like a column"):
        fit(renamed, "person").recommend(0, 1).to_frame()


def test_listed_events_are_left_out_if_absent_ones_are_zeros(films, tmp_path):
    events = TensorData.from_table(films.to_table(), modes=["film", "person"], value="value",
                                   absent="zero")  # fmt: skip
    model = fit(events, "person", ridge=0.0, center=False)
    found = model.recommend("p07", 2)
    listed = films.to_table().query("person == 'p07'")["film"]
    assert not set(found.labels[0]) & set(listed)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="does not have the entries it was fitted to"):
        FairCP.load(tmp_path / "model").recommend("p07", 2)
    with pytest.raises(ValueError, match="cross-validation is not possible for data whose absent"):
        fold_cells(events, 2)


def test_an_empty_list_of_people_is_refused():
    data = TensorData.from_array([[1.0, np.nan, 2.0], [3.0, 4.0, np.nan], [1.0, 2.0, 2.5]])
    with pytest.raises(ValueError, match="people must hold labels such as text .*, got none"):
        FairCP(1, method="none").fit(data).recommend([], 1)


def test_a_table_of_people_is_refused_and_an_empty_one_excludes_nothing(model):
    with pytest.raises(ValueError, match="people must be a list of labels, .*; pass one column"):
        model.recommend(pd.DataFrame({"who": ["a"]}), 1)
    columns = {name: [] for name in model.training_.modes}
    everything = model.recommend(k=1, exclude=pd.DataFrame(columns))
    np.testing.assert_array_equal(everything.scores, model.recommend(k=1, exclude=None).scores)
    assert model.predict(pd.DataFrame(columns)).shape == (0,)
    with pytest.raises(ValueError, match="exclude has no column"):
        model.recommend(k=1, exclude=pd.DataFrame())
