"""What goes wrong in one of several processes ends all of them, with a message."""

import os
import signal

import numpy as np
import pytest
from torch import distributed

from parafair import FairCP, TensorData, sort_parquet
from parafair.errors import TeamError

from ..processes import together

pandas = pytest.importorskip("pandas")
read_metadata = pytest.importorskip("pyarrow.parquet").read_metadata
PEOPLE = 60
GROUPS = np.array(["a", "b"])[np.arange(PEOPLE) % 2]


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    cells = np.argwhere(random.random((PEOPLE, 5)) < 0.8)
    table = pandas.DataFrame({"who": cells[:, 0], "what": cells[:, 1]})
    table["x"] = random.standard_normal(len(table))
    table.to_parquet(tmp_path / "raw.parquet", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parafair.data.sorting.GROUP", 20)
        sort_parquet(tmp_path / "raw.parquet", tmp_path / "s", modes=["who", "what"], value="x")
    return tmp_path / "s"


def messages(tmp_path, size, work):
    """How each process ends: the kind of its error, and what it says."""

    def tried(group):
        try:
            work(group)
        except (ValueError, TeamError) as error:
            return f"{type(error).__name__}: {error}"
        return "fitted"

    (tmp_path / "meeting").mkdir()
    return together(tmp_path / "meeting", size, tried)


def model(**settings):
    return FairCP(2, **{"method": "none", "ridge": 0.5, "n_init": 1, "max_iter": 5, **settings})


def test_processes_of_different_versions_are_refused(tmp_path, folder, monkeypatch):
    def work(group):
        version = str(distributed.get_rank(group))
        monkeypatch.setattr("parafair.model.together.current_versions", lambda: {"torch": version})
        model().fit(TensorData.from_parquet(folder), process_group=group)

    for message in messages(tmp_path, 2, work):
        assert message.startswith("TeamError: processes 0 and 1 differ (versions")


def test_processes_with_different_folders_are_refused(tmp_path, folder):
    table = pandas.read_parquet(tmp_path / "raw.parquet")
    table.loc[3, "x"] += 1.0  # the same cells
    table.to_parquet(tmp_path / "raw.parquet", index=False)
    sort_parquet(tmp_path / "raw.parquet", tmp_path / "t", modes=["who", "what"], value="x")

    def work(group):
        own = folder if distributed.get_rank(group) else tmp_path / "t"
        model().fit(TensorData.from_parquet(own), process_group=group)

    for message in messages(tmp_path, 2, work):
        assert message.startswith("TeamError: processes 0 and 1 differ (data")


@pytest.mark.slow
def test_a_file_that_changes_between_passes_ends_all_processes(tmp_path, folder):
    def work(group):
        def touch(*_):
            path = next(folder.glob("part-*.parquet"))
            os.utime(path, ns=(1, 1))

        data = TensorData.from_parquet(folder)
        model(max_iter=50, tol=0).fit(data, on_iteration=touch, process_group=group)

    found = messages(tmp_path, 2, work)
    assert any("was changed between two passes over the data" in message for message in found)
    assert all("changed" in each or "another process of this fit" in each for each in found)


@pytest.mark.slow
def test_a_damaged_row_group_ends_the_process_that_does_not_read_it_too(tmp_path, folder):
    path = max(folder.glob("part-*.parquet"))
    last = read_metadata(path)
    values = last.row_group(last.num_row_groups - 1).column(2)  # of the second process
    content, times = bytearray(path.read_bytes()), path.stat()
    content[values.dictionary_page_offset + values.total_compressed_size // 2] ^= 0xFF

    def work(group):
        def damage(number, _):  # after checksums were compared
            if number == 1 and distributed.get_rank(group) == 0:
                path.write_bytes(content)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

        data = TensorData.from_parquet(folder)
        model(max_iter=50, tol=0).fit(data, on_iteration=damage, process_group=group)

    first, second = messages(tmp_path, 2, work)
    assert "TeamError: another process of this fit has ended" in first
    assert f"{path.name} is damaged or incomplete" in second


@pytest.mark.slow
def test_a_process_may_stream_no_people_of_a_group(tmp_path, folder):
    groups = np.where(np.arange(PEOPLE) < 6, "a", "b")
    data = TensorData.from_parquet(folder)
    random = np.random.default_rng(1)
    init = [random.standard_normal((n, 2)) for n in data.shape]

    def work(group):
        own = model(method="hsic", init=init, tol=0)
        return own.fit(data, sensitive_features=groups, process_group=group).embedding_

    expected = work(None)
    for found in together(tmp_path, 3, work):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_more_processes_than_people_or_parts_are_refused(tmp_path, folder):
    def work(group):
        data = TensorData.from_parquet(folder)
        model(method="invariant").fit(data, sensitive_features=GROUPS, process_group=group)

    for message in messages(tmp_path, 2, work):
        assert "process_group has 2 processes, but the people form 1 part," in message


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning")
def test_processes_that_stream_continue_after_one_was_killed(tmp_path, folder):
    def fit(state, fatal=None):
        def work(group):
            def kill(number, _):
                if number == fatal and distributed.get_rank(group) == 1:
                    os.kill(os.getpid(), signal.SIGKILL)

            own = model(max_iter=12, tol=0)
            data = TensorData.from_parquet(folder)
            own.fit(
                data,
                on_iteration=kill,
                process_group=group,
                checkpoint=tmp_path / state,
                checkpoint_minutes=1e-9,
            )
            return own.embedding_

        (tmp_path / f"{state} {fatal}").mkdir()
        return together(tmp_path / f"{state} {fatal}", 2, work)

    first, second = fit("broken", fatal=6)
    assert "another process of this fit has ended" in str(first)
    assert isinstance(second, EOFError)
    assert (tmp_path / "broken" / "current.json").exists()
    for found, expected in zip(fit("broken"), fit("whole"), strict=True):
        np.testing.assert_array_equal(found, expected)


def entries_with(value, person):
    """Complete counts with one other entry."""
    found = np.random.default_rng(0).poisson(2.0, (PEOPLE, 5)).astype(np.float64)
    found[person, 3] = value
    return found


@pytest.mark.parametrize(("person", "finder"), [(7, 0), (PEOPLE - 2, 1)])
def test_all_processes_name_the_bad_entry_and_who_found_it(tmp_path, person, finder):
    X = entries_with(-1.0, person)

    def work(group):
        model(loss="poisson", solver="lbfgs").fit(X, process_group=group)

    for message in messages(tmp_path, 2, work):
        assert f"X has -1 at mode_0 {person}, mode_1 3" in message
        assert message.endswith(f"(found by process {finder})")


@pytest.mark.parametrize("sparse", [False, True])
def test_an_entry_too_large_for_single_precision_is_named_by_all_processes(tmp_path, sparse):
    X = entries_with(1e200, PEOPLE - 2)
    if sparse:
        X[0, 0] = np.nan
        cells = np.argwhere(~np.isnan(X))
        table = pandas.DataFrame({"mode_0": cells[:, 0], "mode_1": cells[:, 1]})
        table["x"] = X[tuple(cells.T)]
        X = TensorData.from_table(table, modes=["mode_0", "mode_1"], value="x")

    def work(group):
        model(dtype="float32").fit(X, process_group=group)

    with pytest.raises(ValueError, match=f"X has 1e\\+200 at mode_0 {PEOPLE - 2}, mode_1 3"):
        work(None)
    for message in messages(tmp_path, 2, work):
        assert f"X has 1e+200 at mode_0 {PEOPLE - 2}, mode_1 3, but the largest number" in message
        assert message.endswith("(found by process 1)")


def test_other_processes_say_why_one_has_failed(tmp_path):
    X = np.random.default_rng(0).standard_normal((PEOPLE, 5))

    def work(group):
        def fail(number, _):
            if distributed.get_rank(group) == 1 and number == 2:
                raise ValueError("the disk is full")

        own = model(tol=0)
        own.fit(X, process_group=group)  # a fit before it does not matter
        own.fit(X, process_group=group, on_iteration=fail)

    first, second = messages(tmp_path, 2, work)
    assert first.startswith("TeamError: another process of this fit has ended, process 1: the disk")
    assert second == "ValueError: the disk is full"
