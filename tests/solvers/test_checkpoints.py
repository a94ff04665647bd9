"""A fit that was stopped continues with the same result, and nothing else is read or lost."""

import errno
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from parafair import FairCP, TensorData
from parafair.encoders import Learned
from parafair.errors import Interrupted, Terminated
from parafair.penalties import Invariant

from ..processes import together


def sample(people=60):
    random = np.random.default_rng(0)
    groups = np.array(["a", "b"])[np.arange(people) % 2]
    factors = random.normal(size=(people, 2)) + (groups == "a")[:, None], random.normal(size=(5, 2))
    tensor = np.einsum("ir,jr,kr->ijk", *factors, random.normal(size=(4, 2)))
    return tensor + 0.3 * random.normal(size=tensor.shape), groups


TENSOR, GROUPS = sample()


def plain(**settings):
    return FairCP(2, method="hsic", **{"tol": 0.0, "max_iter": 12, "n_init": 2, **settings})


def terminate_after(count):
    """A callback that sends SIGTERM to this process after some iterations."""
    seen = []

    def on_iteration(number, objective):
        seen.append(number)
        if len(seen) == count:
            os.kill(os.getpid(), signal.SIGTERM)

    return on_iteration


def interrupt_after(count):
    """A callback that is interrupted after some iterations."""
    seen = []

    def on_iteration(number, objective):
        seen.append(number)
        if len(seen) == count:
            raise KeyboardInterrupt

    return on_iteration


def stop_and_resume(model, data, folder, after):
    """Return a fit that was told to end after some iterations, and then continued."""
    tensor, groups = data
    with pytest.raises(Terminated, match=r"stored a checkpoint in .*start it again"):
        model().fit(
            tensor,
            sensitive_features=groups,
            checkpoint=folder,
            on_iteration=terminate_after(after),
        )
    return model().fit(tensor, sensitive_features=groups, checkpoint=folder)


def check_same(found, expected):
    assert np.array_equal(found.embedding_, expected.embedding_)
    assert found.fit_.counts == expected.fit_.counts
    assert found.fit_.status is expected.fit_.status
    for one, other in zip(found.fit_.history, expected.fit_.history, strict=True):
        assert one.objective == other.objective


@pytest.mark.parametrize("after", [1, 7])
def test_a_fit_continues_with_the_same_result(tmp_path, after):
    expected = plain().fit(TENSOR, sensitive_features=GROUPS)
    before = signal.getsignal(signal.SIGTERM)
    found = stop_and_resume(plain, (TENSOR, GROUPS), tmp_path / "state", after)
    check_same(found, expected)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not (tmp_path / "state").exists()  # it had rows without noise


def stopped(folder, **settings):
    """Write the checkpoint of a fit that was told to end."""
    with pytest.raises(Terminated, match="stored a checkpoint in"):
        plain(**settings).fit(
            TENSOR, sensitive_features=GROUPS, checkpoint=folder, on_iteration=terminate_after(3)
        )


def check_interrupted(model, data, folder, after, expected):
    tensor, groups = data
    with pytest.raises(Interrupted, match="interrupted after"):
        model().fit(
            tensor,
            sensitive_features=groups,
            checkpoint=folder,
            on_iteration=interrupt_after(after),
        )
    assert (folder / "current.json").exists()
    found = model().fit(tensor, sensitive_features=groups, checkpoint=folder)
    check_same(found, expected)
    assert not folder.exists()


@pytest.mark.parametrize("after", [1, 7])
def test_an_interrupted_fit_continues_with_the_same_result(tmp_path, after):
    expected = plain().fit(TENSOR, sensitive_features=GROUPS)
    check_interrupted(plain, (TENSOR, GROUPS), tmp_path / "state", after, expected)


def test_an_interrupted_fit_does_not_begin_anew(tmp_path):
    settings = {"sensitive_features": GROUPS, "checkpoint": tmp_path / "state"}
    with pytest.raises(Interrupted, match="interrupted after"):
        plain().fit(TENSOR, on_iteration=interrupt_after(7), **settings)
    seen = []
    plain().fit(TENSOR, on_iteration=lambda number, _: seen.append(number), **settings)
    assert seen[0] == 8


def test_a_full_disk_is_named_and_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    expected = plain().fit(TENSOR, sensitive_features=GROUPS)
    folder = tmp_path / "state"
    stopped(folder)
    before = (folder / "current.json").read_bytes()

    def full(stream):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("parafair.storage.os.fsync", full)
        with pytest.raises(OSError, match=r"the disk of \S*/state is full; free some space and"):
            stopped(folder)
    assert (folder / "current.json").read_bytes() == before
    found = plain().fit(TENSOR, sensitive_features=GROUPS, checkpoint=folder)
    check_same(found, expected)


def test_other_settings_and_other_data_are_refused(tmp_path):
    folder = tmp_path / "state"
    stopped(folder)
    with pytest.raises(ValueError, match=r"other settings \(max_iter: 12 there, 13 now\)"):
        plain(max_iter=13).fit(TENSOR, sensitive_features=GROUPS, checkpoint=folder)
    with pytest.raises(ValueError, match=r"other settings \(data: not the same\)"):
        plain().fit(TENSOR + 1, sensitive_features=GROUPS, checkpoint=folder)
    with pytest.raises(ValueError, match=r"other settings \(sensitive_features: not the same"):
        plain().fit(TENSOR, sensitive_features=GROUPS[::-1], checkpoint=folder)
    assert (folder / "current.json").exists()


def test_other_side_information_is_refused(tmp_path):
    def fit(side, **more):
        model = FairCP(2, method="none", tol=0.0, max_iter=6)
        model.fit(TENSOR, side=TensorData.from_array(side), checkpoint=tmp_path / "state", **more)

    side = TENSOR[:, 0]
    with pytest.raises(Terminated, match="stored a checkpoint in"):
        fit(side, on_iteration=terminate_after(3))
    with pytest.raises(ValueError, match=r"other settings \(side: "):
        fit(side[::-1].copy())
    fit(side)


def test_a_changed_checkpoint_is_refused(tmp_path):
    folder = tmp_path / "state"
    stopped(folder)
    (file,) = folder.rglob("arrays.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="does not match its checksum"):
        plain().fit(TENSOR, sensitive_features=GROUPS, checkpoint=folder)


def test_a_checkpoint_names_no_other_class(tmp_path):
    folder = tmp_path / "state"
    stopped(folder)
    (file,) = folder.rglob("state.json")
    kinds = set()

    def visit(value):
        if isinstance(value, dict):
            kinds.update([value["kind"]] if "kind" in value else [])
            value = list(value.values())
        for each in value if isinstance(value, list) else ():
            visit(each)

    visit(json.loads(file.read_text()))
    assert kinds == {"Running", "BlockState", "Objective", "Iteration"}


@pytest.mark.parametrize("name", ["thesis.tex", "save-the-date.txt"])
def test_a_folder_with_other_files_is_refused(tmp_path, name):
    (tmp_path / name).write_text("important")
    with pytest.raises(FileExistsError, match=rf"holds other files \({name}\)"):
        plain().fit(TENSOR, sensitive_features=GROUPS, checkpoint=tmp_path)
    assert (tmp_path / name).read_text() == "important"


def test_hidden_files_stay_and_do_not_matter(tmp_path):
    # Those of the system, or of a writer on another machine that was killed.
    hidden = tmp_path / ".current-elsewhere-1-0123456789ab.json"
    hidden.write_text("half")
    plain(max_iter=3).fit(TENSOR, sensitive_features=GROUPS, checkpoint=tmp_path)
    assert hidden.read_text() == "half"


def test_what_is_put_into_the_folder_during_the_fit_stays(tmp_path):
    folder, precious = tmp_path / "state", tmp_path / "state" / "notes.txt"
    model = plain(max_iter=3)

    def on_iteration(number, objective):
        precious.parent.mkdir(exist_ok=True)
        precious.write_text("important")

    model.fit(
        TENSOR,
        sensitive_features=GROUPS,
        checkpoint=folder,
        checkpoint_minutes=1e-9,
        on_iteration=on_iteration,
    )
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_a_checkpoint_of_a_fit_that_still_runs_is_refused(tmp_path):
    folder, refused = tmp_path / "state", []

    def on_iteration(number, objective):
        if number == 3:
            with pytest.raises(FileExistsError, match=f"in use by process {os.getpid()}") as found:
                plain().fit(TENSOR, sensitive_features=GROUPS, checkpoint=folder)
            refused.append(str(found.value))

    model = plain().fit(
        TENSOR,
        sensitive_features=GROUPS,
        checkpoint=folder,
        checkpoint_minutes=1e-9,
        on_iteration=on_iteration,
    )
    assert refused
    assert "wait until it has ended" in refused[0]
    check_same(model, plain().fit(TENSOR, sensitive_features=GROUPS))
    assert not folder.exists()


def test_a_fit_that_fails_leaves_no_folder(tmp_path):
    def on_iteration(number, objective):
        raise RuntimeError("the callback is broken")

    with pytest.raises(RuntimeError, match="the callback is broken"):
        plain().fit(
            TENSOR,
            sensitive_features=GROUPS,
            checkpoint=tmp_path / "a" / "state",
            on_iteration=on_iteration,
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="needs locks of files")
def test_processes_are_refused_the_checkpoint_of_another_fit(tmp_path):
    given = {"sensitive_features": GROUPS, "checkpoint": tmp_path / "state"}
    found = []

    def on_iteration(number, objective):
        if number == 3:
            found.extend(
                together(
                    tmp_path, 2, lambda group: plain().fit(TENSOR, **given, process_group=group)
                )
            )

    plain().fit(TENSOR, **given, on_iteration=on_iteration)
    assert ["in use by process" in str(each) for each in found] == [True, True]


@pytest.mark.parametrize("minutes", [0, -1.0, "soon"])
def test_checkpoint_minutes_must_be_positive(tmp_path, minutes):
    with pytest.raises((TypeError, ValueError), match="checkpoint_minutes"):
        plain().fit(
            TENSOR,
            sensitive_features=GROUPS,
            checkpoint=tmp_path / "state",
            checkpoint_minutes=minutes,
        )


def test_checkpoint_minutes_need_a_checkpoint():
    with pytest.raises(ValueError, match="checkpoint_minutes=5 is for fits with a checkpoint"):
        plain().fit(TENSOR, sensitive_features=GROUPS, checkpoint_minutes=5)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_checkpoint_where_no_files_can_be_is_refused():
    with pytest.raises(PermissionError, match="/proc can.*; choose another folder"):
        plain().fit(TENSOR, sensitive_features=GROUPS, checkpoint="/proc/state")


def invariant():
    return FairCP(2, method=Invariant(chunk_size=50), max_iter=40, n_init=2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning")
@pytest.mark.parametrize("after", [1, 20, 45, 75, 95])
def test_every_stage_of_a_fit_continues(tmp_path, after):
    data = sample(300)
    expected = invariant().fit(data[0], sensitive_features=data[1])
    check_same(stop_and_resume(invariant, data, tmp_path / "state", after), expected)
    check_interrupted(invariant, data, tmp_path / "other", after, expected)


@pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning")
def test_sigterm_ends_the_learning_of_an_encoder(tmp_path):
    def model():
        encoder = Learned(hidden=0, steps=20)
        return FairCP(2, encoder=encoder, tol=0.0, max_iter=3, n_init=1)

    found = stop_and_resume(model, (TENSOR, GROUPS), tmp_path / "state", after=10)
    whole = model().fit(TENSOR, sensitive_features=GROUPS)
    check_same(found, whole)


def fit_in_group(data, folder, **more):
    """Return a function that fits in each process of a group, a checkpoint at every chance."""
    tensor, groups = data

    def work(group):
        model = invariant().fit(
            tensor,
            sensitive_features=groups,
            process_group=group,
            checkpoint=folder,
            checkpoint_minutes=1e-9,
            **more,
        )
        return model.embedding_

    return work


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning")
def test_processes_that_are_killed_at_random_moments_continue(tmp_path):
    data, folder = sample(900), tmp_path / "state"
    (tmp_path / "whole").mkdir()
    whole = fit_in_group(data, tmp_path / "other")
    begin = time.perf_counter()
    expected = together(tmp_path / "whole", 2, whole)[0]
    seconds = time.perf_counter() - begin
    random = np.random.default_rng(0)
    for attempt in range(4):
        fatal = seconds * random.uniform(0.1, 0.5)

        def killed(group, fatal=fatal, rank=attempt % 2):
            if group.rank() == rank:
                signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
                signal.setitimer(signal.ITIMER_REAL, fatal)
            return fit_in_group(data, folder)(group)

        (tmp_path / f"{attempt}").mkdir()
        together(tmp_path / f"{attempt}", 2, killed)
    (tmp_path / "last").mkdir()
    for found in together(tmp_path / "last", 2, fit_in_group(data, folder)):
        assert np.array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::parafair.errors.ConvergenceWarning")
def test_sigterm_of_one_process_ends_all_with_a_checkpoint(tmp_path):
    data, folder = sample(900), tmp_path / "state"

    def terminated(group):
        stop = terminate_after(30) if group.rank() == 1 else None
        return fit_in_group(data, folder, on_iteration=stop)(group)

    (tmp_path / "first").mkdir()
    assert [type(found) for found in together(tmp_path / "first", 2, terminated)] == [
        Terminated
    ] * 2
    for name in ("again", "whole"):
        (tmp_path / name).mkdir()
    found = together(tmp_path / "again", 2, fit_in_group(data, folder))
    expected = together(tmp_path / "whole", 2, fit_in_group(data, tmp_path / "other"))
    assert np.array_equal(found[1], expected[0])
