from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Annotated

import pytest

typer = pytest.importorskip("typer")
flatten = pytest.importorskip("parafair.cli.command").flatten


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="Width.")]
    height: Annotated[int, typer.Option(help="Height.")] = 3


@dataclass(frozen=True)
class Box(Size):
    depth: Annotated[int, typer.Option(help="Depth.")] = 4


SMALL = Size(1, 2)


def test_a_group_becomes_one_parameter_for_each_field():
    seen = []

    def function(name: str, box: Box) -> None:
        """Text."""
        seen.append((name, box))

    flat = flatten(function, {})
    defaults = {p.name: p.default for p in signature(flat).parameters.values()}
    empty = Parameter.empty
    assert defaults == {"name": empty, "width": empty, "height": 3, "depth": 4}
    assert flat.__doc__ == "Text."
    flat(name="a", width=1, height=2, depth=5)
    assert seen == [("a", Box(1, 2, 5))]


def test_a_default_of_the_group_gives_the_defaults_of_its_fields():
    def function(size: Size = SMALL) -> None:
        pass

    found = signature(flatten(function, {})).parameters
    assert [p.default for p in found.values()] == [1, 2]


def test_more_options_are_handed_over_only_if_given():
    seen = []

    def function(name: str, **options) -> None:
        seen.append(options)

    flat = flatten(function, {"seed": int | None, "rank": int | None})
    assert list(signature(flat).parameters) == ["name", "seed", "rank"]
    flat(name="a", seed=3, rank=None)
    assert seen == [{"seed": 3}]


def test_errors_become_one_line(capsys):
    def function() -> None:
        raise ValueError("rank must be [b]one[/b]")

    with pytest.raises(typer.Exit):
        flatten(function, {})()
    assert capsys.readouterr().err == "Error: rank must be [b]one[/b]\n"
