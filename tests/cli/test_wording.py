"""Messages of the library in the words of the shell."""

import pytest

pytest.importorskip("typer")
from parafair.cli.lazy import Commands
from parafair.cli.wording import PARAMETERS, in_shell_words


@pytest.fixture
def running():
    """Make a command the running one."""
    tokens = []

    def begin(name):
        tokens.append(PARAMETERS.set(tuple(Commands()[name].params)))

    yield begin
    for token in reversed(tokens):
        PARAMETERS.reset(token)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("rank must be at least 1, got 0", "--rank must be at least 1, got 0"),
        ("ridge, if it is not 'auto', must be", "--ridge, if it is not 'auto', must be"),
        ("a.csv: value must be one of a", "a.csv: --value must be one of a"),
        ("raise max_iter or tol", "raise --max-iter or --tol"),
        ("leave encoder out", "leave --encoder out"),
        ("every name in attackers must be", "every name in attackers must be"),
        (
            "guarantee=('audit', 'release') is for strength='auto', but strength=None",
            "--guarantee audit,release is for --strength auto, but --strength is not given",
        ),
        ("method='none', 'hsic' or 'fatr'; or", "--method none, hsic or fatr; or"),
        (
            "needs sensitive_features; pass them as sensitive_features=..., or use method='none'",
            "needs --sensitive; pass them as --sensitive, or use --method none",
        ),
        ("choose another folder, or overwrite=True", "choose another folder, or --force"),
        ("(missing='exclude' in SensitiveFeatures)", "(--missing exclude)"),
        ("numeric with kinds={'age': 'numeric'}", "numeric with --kind age=numeric"),
        ("of full rank, such as FairCP(noise=0.1)", "of full rank, such as --noise 0.1"),
        ("but noise=0: nothing", "but --noise 0: nothing"),
        ("use 'cpu', or None for where", "use 'cpu', or leave it out for where"),
        ("leave guarantee out and use certify", "leave --guarantee out and use parafair certify"),
        ("X has 13.8 at person 0", "tensor has 13.8 at person 0"),
        ("make one with parafair.sort_parquet", "make one with parafair sort"),
        (
            "process_group does not support init='svd'; leave process_group out",
            "torchrun does not support --init svd; leave torchrun out",
        ),
    ],
)
def test_arguments_of_python_become_options(running, message, expected):
    running("fit")
    assert in_shell_words(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "a.csv has no column 'max_iter'; it has rank, strength",
        "test_size/entries.csv does not exist",
        "noise 0.1 of the spread: residual 0.1 -> 0.2",
        "kernel=object and process_group=None",
        "max_iter.csv is a file",
        "--given must look like mode=label, got 'test'",
        "rank 1, ridge 1: RMSE 7.052 of held-out entries",
        "got 'abc' in row 3; leave missing values empty and turn text into numbers first",
    ],
)
def test_other_words_stay(running, message):
    running("frontier")
    assert in_shell_words(message) == message


def test_settings_of_a_stored_model_are_options_of_fit(running):
    running("recommend")
    text = in_shell_words("pass unknown='offsets' to a model with center=True, or exclude=None")
    assert text == "pass --unknown offsets to a model with --center, or --include-rated"


def test_people_of_a_certificate_are_the_new_ones(running):
    running("certify")
    text = in_shell_words("sensitive_features has 5 rows but X has 9 people; 3 people of X_new")
    assert (
        text == "--new-sensitive has 5 rows but --new-tensor has 9 people; 3 people of --new-tensor"
    )


def test_nothing_changes_outside_a_command():
    assert in_shell_words("rank must be 1; use strength='auto'") == (
        "rank must be 1; use strength='auto'"
    )
