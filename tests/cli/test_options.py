"""Names, defaults and choices are those of Python."""

from dataclasses import fields
from inspect import signature

import pytest

pytest.importorskip("typer")

from parafair import FairCP, audit, frontier, losses, parity_limit, tune
from parafair.audits import ATTACKERS
from parafair.cli.lazy import Commands
from parafair.cli.limits import LimitOptions
from parafair.cli.models import GridOptions, ModelOptions, StartOptions
from parafair.cli.options import AuditOptions, numbers
from parafair.frontiers.run import AUDITS
from parafair.losses import LOSSES
from parafair.model.methods import METHODS
from parafair.solvers.init import INITS
from parafair.solvers.registry import SOLVERS
from tests.cli.conftest import FIT, PEOPLE, help_of, run

# Arguments of Python that the shell has otherwise: files, the mode, the progress bar.
ELSEWHERE = {"self", "mode", "verbose"}

SOLVER_NAMES = ("auto", *SOLVERS)


def defaults_of(function):
    return {name: p.default for name, p in signature(function).parameters.items()}


def test_settings_of_a_fit_are_the_arguments_of_the_model():
    settings = ModelOptions().settings() | StartOptions().settings()
    assert settings.pop("ranks") is None  # the model is then no FairTucker
    python = defaults_of(FairCP)
    assert settings == {name: python[name] for name in python if name not in ELSEWHERE}


def test_settings_of_an_audit_are_those_of_python():
    python = defaults_of(audit)
    assert AuditOptions().settings() == {f.name: python[f.name] for f in fields(AuditOptions)}
    python = defaults_of(parity_limit)
    assert vars(LimitOptions()) == {f.name: python[f.name] for f in fields(LimitOptions)}


@pytest.mark.parametrize(
    ("command", "function", "names"),
    [
        ("tune", tune, ["cv", "n_jobs", "max_leakage", "random_state"]),
        ("frontier", frontier, ["strengths", "seeds", "n_jobs"]),
        ("audit", audit, ["folds", "repeats", "permutations", "max_people", "n_jobs"]),
    ],
)
def test_commands_have_the_defaults_of_their_functions(command, function, names):
    found = {p.name: p.default for p in options_of(command)}
    for name in names:
        default = defaults_of(function)[name]
        assert found[name] == default or found[name] == str(default), name


def test_a_frontier_audits_as_in_python():
    found = {p.name: p.default for p in options_of("frontier")}
    expected = {**AUDITS, "attackers": ",".join(AUDITS["attackers"])}
    assert {name: found[name] for name in AUDITS} == expected


def options_of(command):
    return signature(Commands()[command].callback).parameters.values()


@pytest.mark.parametrize(
    ("command", "registered"),
    [
        ("fit", METHODS), ("fit", SOLVER_NAMES), ("fit", INITS), ("fit", LOSSES),
        ("tune", METHODS), ("tune", SOLVER_NAMES), ("tune", INITS), ("tune", LOSSES),
        ("frontier", METHODS), ("frontier", SOLVER_NAMES), ("frontier", INITS),
        ("frontier", LOSSES), ("frontier", ATTACKERS), ("audit", ATTACKERS),
    ],
)  # fmt: skip
def test_the_help_lists_what_is_registered(working, command, registered):
    text = help_of(command)
    listed = ", ".join(registered) in text or f"<{'|'.join(registered)}>" in text
    assert listed, text


def test_the_help_tells_when_there_is_a_ridge(working):
    text = help_of("fit")
    assert (
        "or auto: 0 if no entry is missing (0.1 with a link), otherwise the one that predicts"
        in text
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rank", "4,8"), "--rank must be one value, got 4,8; use parafair tune to choose"),
        (("--ridge", "1,10"), "--ridge must be one value, got 1,10; use parafair tune"),
        (("--strength", "1,10"), "--strength must be one value, got 1,10; use parafair tune"),
        (("--rank", "x"), "--rank must be a whole number, got 'x'"),
        (("--ridge", "much"), "--ridge must be a number or auto, got 'much'"),
        (("--strength", "much"), "--strength must be a number or auto, got 'much'"),
        (("--step-sizes", "3,1"), "--step-sizes is for --solver gradient, but --solver is auto"),
        (("--inner-steps", 5), "--inner-steps is for --solver gradient, but --solver is auto"),
        (("--solver", "gradient", "--step-sizes", "a,b"), "--step-sizes must be numbers separated"),
        (
            ("--solver", "gradient", "--step-sizes", "1"),
            "--step-sizes must be two positive numbers",
        ),
        (("--solver", "grad"), "--solver must be one of auto, block, lbfgs, gradient; got 'grad'"),
        (("--method", "khsik"), "did you mean 'khsic'?"),
        (
            ("--method", "none", "--strength", 1),
            "--method none has no penalty; leave --strength out",
        ),
        (
            ("--method", "moment-matching", "--strength", 1),
            "--method moment-matching has no penalty; leave --strength out",
        ),
        (("--method", "hsic", "--strength", "auto"), "--strength auto needs a penalty with a"),
        (("--loss", "absolute"), "--loss must be one of squared, huber, bernoulli"),
        (("--loss", "poisson:3"), "--loss poisson has no setting, got 'poisson:3'; leave :3 out"),
        (("--loss", "binomial:x"), "--loss binomial must have a whole number after the colon, its"),
        (("--loss", "huber:"), "--loss huber must have a number after the colon, its delta, got"),
        (
            ("--loss", "binomial:0"),
            "--loss binomial:0: trials must be a whole number of at least 1, got 0",
        ),
        (("--loss", "binomal:3"), "--loss must be one of squared, huber, bernoulli"),
        (("--init", "ones"), "--init must be one of uniform, normal, svd; got 'ones'"),
        (("--init", "svd", "--n-init", 2), "--n-init 2 needs random starts"),
        (("--random-state", -1), "--random-state must be a whole number between 0 and"),
        (("--device", "gpu"), "--device gpu cannot be used here"),
        (("--non-negative", "7"), "each mode of --non-negative must be between 0 and"),
    ],
)
def test_wrong_settings_are_refused(arrays, arguments, message):
    text = run(*FIT, *PEOPLE, *arguments, code=2)
    assert text.startswith("Error:")
    assert message in text
    assert not (arrays / "run").exists()


def test_a_grid_is_split_into_settings_and_values():
    settings, grid = GridOptions(rank="4,8", strength="auto", ridge="1").grid()
    assert grid == {"rank": [4, 8]}
    assert (settings["ridge"], settings["strength"], settings["max_leakage"]) == (1.0, "auto", 0.05)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, False), ("all", True), ("student", ("student",)), ("student,2", ("student", 2))],
)
def test_modes_with_non_negative_factors_are_separated_by_commas(given, expected):
    assert ModelOptions(non_negative=given).settings()["non_negative"] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("binomial:10", losses.Binomial(10)),
        ("huber:0.5", losses.Huber(0.5)),
        ("negative-binomial:2", losses.NegativeBinomial(2.0)),
        ("binomial", "binomial"),
    ],
)
def test_a_loss_may_have_its_setting_after_a_colon(given, expected):
    found = ModelOptions(loss=given, side_loss=given).settings()
    assert found["loss"] == found["side_loss"] == expected


def test_numbers_are_separated_by_commas():
    assert numbers("--shape", "3,4", int) == [3, 4]
    with pytest.raises(ValueError, match="--shape must be whole numbers separated by commas, got"):
        numbers("--shape", "3,x", int)
