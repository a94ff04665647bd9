import json
from math import isnan

import pytest
import torch

from parafair.penalties import HSIC
from parafair.solvers import BlockDescent, solve_batch
from parafair.solvers.init import make_starts
from parafair.solvers.result import Fit, Iteration, Status, Stop, best
from parafair.storage import new_folder
from tests.conftest import small_problem


def line(objective, seconds=0.0):
    return Iteration(objective, objective, 0.0, 1.0, seconds)


@pytest.fixture(scope="module")
def fit():
    problem = small_problem(HSIC(1.0))
    starts = make_starts(problem, "uniform", count=1, seed=0)
    return solve_batch(problem, BlockDescent(), starts=starts, stop=Stop(5, 0))[0]


class TestStop:
    def test_converged_when_the_objective_stops_falling(self):
        stop = Stop(tol=1e-3, window=2)
        assert stop.judge([line(2.0), line(1.5), line(1.0)]) is Status.RUNNING
        assert stop.judge([line(1.001), line(1.0005), line(1.0)]) is Status.CONVERGED

    def test_a_small_objective_is_compared_with_what_noise_will_add(self):
        history = [line(0.103), line(0.102), line(0.101)]
        assert Stop(tol=1e-3, window=2).judge(history) is Status.RUNNING
        assert Stop(tol=1e-3, window=2, noise_cost=0.9).judge(history) is Status.RUNNING
        assert Stop(tol=1e-3, window=2, noise_cost=1.1).judge(history) is Status.CONVERGED

    def test_zero_tolerance_counts_iterations_only(self):
        assert Stop(max_iter=9, tol=0).judge([line(1.0)] * 9) is Status.RUNNING
        assert Stop(max_iter=9, tol=0).judge([line(1.0)] * 10) is Status.OUT_OF_ITERATIONS

    def test_an_objective_at_the_floor_is_converged(self):
        assert Stop().judge([line(1.0), line(1e-30)], floor=1e-29) is Status.CONVERGED

    def test_an_undefined_objective_is_diverged(self):
        assert Stop().judge([line(1.0), line(float("nan"))]) is Status.DIVERGED
        assert Stop().judge([line(1.0), line(float("inf"))]) is Status.DIVERGED

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"max_iter": 0}, "max_iter must be a whole number of at least 1, got 0"),
            ({"tol": -1}, "tol must be a finite number of at least 0, got -1"),
            ({"tol": float("nan")}, "tol must be a finite number of at least 0, got nan"),
            ({"max_seconds": 0}, "max_seconds must be a finite number above 0, got 0"),
            ({"window": 0}, "window must be a whole number of at least 1, got 0"),
        ],
    )
    def test_bad_settings_are_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            Stop(**options)


@pytest.fixture
def written(fit, tmp_path):
    """The folder of a fit."""
    with new_folder(tmp_path / "fit") as folder:
        fit.write(folder)
    return tmp_path / "fit"


class TestFiles:
    def test_written_and_loaded_is_the_same_fit(self, fit, written):
        loaded = Fit.load(written)
        assert torch.equal(loaded.cp.weights, fit.cp.weights)
        assert all(map(torch.equal, loaded.cp.factors, fit.cp.factors))
        assert loaded.history == fit.history
        assert loaded.status is fit.status
        assert loaded.counts == fit.counts

    def test_undefined_numbers_of_a_diverged_fit_come_back_undefined(self, fit, tmp_path):
        diverged = Fit(fit.cp, Status.DIVERGED, (line(1.0), line(float("nan"))))
        with new_folder(tmp_path / "fit") as folder:
            diverged.write(folder)
        assert "NaN" not in (tmp_path / "fit" / "fit.json").read_text()
        first, last = Fit.load(tmp_path / "fit").history
        assert first == line(1.0)
        assert isnan(last.objective)

    @pytest.mark.parametrize("name", ["fit.json", "factors.safetensors"])
    def test_truncated_files_are_named(self, written, name):
        path = written / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(ValueError, match=f"{name} (does not match its|is not readable as)"):
            Fit.load(written)

    def test_missing_parts_are_named(self, written, tmp_path):
        with pytest.raises(FileNotFoundError, match="give the folder of a saved run"):
            Fit.load(tmp_path / "nothing")
        (written / "factors.safetensors").unlink()
        with pytest.raises(FileNotFoundError, match="factors.safetensors does not exist; give"):
            Fit.load(written)

    def test_other_formats_are_refused(self, written):
        path = written / "fit.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
        with pytest.raises(ValueError, match="has format 99, but this version"):
            Fit.load(written)


def test_repr_says_why_it_stopped(fit):
    assert "5 iterations" in repr(fit)
    assert "did not converge in max_iter iterations" in repr(fit)


def test_best_prefers_any_fit_to_a_diverged_one(fit):
    diverged = Fit(fit.cp, Status.DIVERGED, (line(1e-9),))
    assert best([diverged, fit]) is fit
    better = Fit(fit.cp, Status.CONVERGED, (line(fit.objective / 2),))
    assert best([fit, better, diverged]) is better
