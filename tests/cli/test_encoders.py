import pytest

pytest.importorskip("typer")

from parafair import FairCP
from parafair.cli.models import GridOptions, ModelOptions
from parafair.encoders import Learned
from tests.cli.conftest import FIT, PEOPLE, help_of, run


def test_settings_of_the_encoder_reach_the_model(arrays):
    run(
        *FIT, *PEOPLE, "--encoder", "network", "--encoder-steps", 20, "--encoder-hidden", 4,
        "--encoder-batch-size", 60, "--encoder-learning-rate", 0.01,
    )  # fmt: skip
    expected = Learned(hidden=4, steps=20, batch_size=60, learning_rate=0.01)
    assert FairCP.load("run").encoder == expected


def test_an_encoder_by_name_stays_one():
    assert ModelOptions(encoder="linear").settings()["encoder"] == "linear"
    options = GridOptions(rank="2,3", encoder="linear", encoder_steps=7)
    assert options.grid()[0]["encoder"] == Learned(hidden=0, steps=7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--encoder-steps", 5], "--encoder-steps is for --encoder, but there is none; add"),
        (["--encoder", "linear", "--encoder-hidden", 5], "but --encoder is linear; leave it out"),
        (["--encoder", "network", "--encoder-steps", 0], "steps must be a whole number from 1"),
        (["--encoder", "lin", "--encoder-steps", 5], "encoder must be one of linear, network"),
    ],
)
def test_settings_without_an_effect_are_refused(arrays, options, message):
    assert message in " ".join(run(*FIT, *PEOPLE, *options, code=2).split())


def test_help_has_the_defaults_of_the_encoder():
    text = help_of("fit")
    for name, value in vars(Learned()).items():
        assert f"--encoder-{name.replace('_', '-')}" in text
        assert f"[default: {value:g}]" in text
