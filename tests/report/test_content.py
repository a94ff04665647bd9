import pytest

from parafair.report import content, write_report
from tests.frontier.conftest import small


@pytest.fixture(scope="module")
def frontier():
    return small(strengths=(0.01, 3.0, 30.0)) + small(method="none")


def test_numbers_are_those_of_the_table(frontier):
    shown = content(frontier, title="A title")
    table = frontier.to_frame()
    assert len(shown["points"]) == len(table)
    for point, (_, row) in zip(shown["points"], table.iterrows(), strict=True):
        for name in ("residual", "leakage", "low", "high", "p_value", "criterion", "seconds"):
            assert point[name] == row[name]
        attackers = {a["model"]: a["value"] for a in point["attackers"]}
        assert attackers


def test_the_picked_point_obeys_the_level(frontier):
    picked = [p for p in content(frontier, title="", leakage=0.2)["points"] if p["picked"]]
    assert len(picked) == 1
    assert picked[0]["leakage"] <= 0.2


def test_words_say_what_was_not_achieved(frontier):
    words = " ".join(content(frontier, title="", leakage=-1.0)["summary"])
    assert "No fit has a leakage of at most -1" in words
    assert "never that it reveals nothing" in words
    words = " ".join(content(frontier, title="", leakage=0.4)["summary"])
    assert "The least residual at a leakage of at most 0.4 is" in words


def test_before_is_the_plain_fit(frontier):
    shown = content(frontier, title="")
    assert shown["before"]["title"] == "plain decomposition"
    assert len(shown["before"]["x"]) == 60
    alone = content(frontier.of("invariant"), title="")
    assert alone["before"]["title"] == "closest fit, invariant at strength 0.01"


def test_fits_without_audits_have_a_page(tmp_path):
    found = small(audits=None)
    shown = content(found, title="")
    assert any("not audited" in words for words in shown["summary"])
    assert write_report(found, tmp_path / "page.html")[0].read_text()


def test_the_files_are_written(tmp_path, frontier):
    written = write_report(frontier, tmp_path / "page.html", formats=("png", "svg"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in written)
    assert [path.name for path in written] == [
        "page.html", "frontier.png", "embeddings.png", "frontier.svg", "embeddings.svg",
    ]  # fmt: skip
    with pytest.raises(FileNotFoundError, match="the folder of .* does not exist"):
        write_report(frontier, tmp_path / "no" / "page.html")
