"""A short part of the campaign: damaged files, kills, full disks and races."""

from pathlib import Path
from random import Random

import pytest

from tests.campaign.damage import Damaged
from tests.campaign.faults import PROCESSES, Fault, Moment, start
from tests.campaign.jobs import JOBS, prepare_few
from tests.campaign.kills import Scene
from tests.campaign.kinds import KINDS
from tests.campaign.outcomes import Kind
from tests.campaign.races import race

SEED = 7
# These take a fraction of a second.
QUICK_JOBS = ("parafair report", "FairCP.save")


def failures(outcomes):
    return [
        f"{outcome.kind.label}: {outcome.target}: {outcome.detail}: {outcome.reproduction}"
        for outcome in outcomes
        if outcome.kind.failure
    ]


# The others have the same files and more, and take longer.
FAST = ("model", "run", "frontier", "audit", "data", "sorted", "checkpoint")


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in KINDS],
)
def test_damage_is_refused_or_makes_no_difference(tmp_path, name):
    damaged, chance = Damaged.make(name, tmp_path), Random(SEED)
    outcomes = [damaged.attempt(chance) for _ in range(60)]
    assert not failures(outcomes)
    assert sum(outcome.kind is Kind.REFUSED for outcome in outcomes) > 12


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder to work in, and processes to do it."""
    PROCESSES.set_forkserver_preload(["tests.campaign.jobs"])
    start()
    return prepare_few(tmp_path_factory.mktemp("original") / "folder")


@pytest.mark.parametrize("target", QUICK_JOBS)
def test_what_is_killed_loses_nothing_and_can_be_repeated(tmp_path, original, target):
    job = next(job for job in JOBS if job.target == target)
    scene, chance = Scene.make(job, original, tmp_path / "work"), Random(SEED)
    faults = (Fault.KILL, Fault.INTERRUPT, Fault.FULL)
    outcomes = [
        scene.attempt(Moment(fault, chance.randint(1, scene.operations)), chance)
        for fault in faults
    ]
    assert not failures(outcomes)


def test_of_two_processes_one_wins(tmp_path, original):
    assert not failures(race("FairCP.save", tmp_path / "race"))


def test_a_folder_that_was_moved_aside_is_not_lost(tmp_path):
    original, folder = tmp_path / "original", tmp_path / "work"
    (original / "curve" / "one").mkdir(parents=True)
    (original / "curve" / "one" / "fit").write_text("a")
    scene = Scene(JOBS[0], original, folder, None, None, 0, 0.0)
    place = Path("curve", "one", "fit")
    aside = folder / "curve" / ".one-host-1-0" / "old"
    aside.mkdir(parents=True)
    assert not scene._is_moved(place)
    (aside / "fit").write_text("a")
    assert scene._is_moved(place)
    (aside / "fit").write_text("b")
    assert not scene._is_moved(place)
