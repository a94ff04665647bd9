import json

import numpy as np
import pytest

from parafair import Certificate, certify_rows
from tests.guarantees.conftest import people

ROWS, LABELS = people(20, 30, columns=2)


@pytest.fixture(scope="module")
def certificate():
    released = ROWS + np.random.default_rng(0).standard_normal(ROWS.shape)
    return certify_rows(ROWS, LABELS, noise=1.0, released=released, draws=1000)


def test_it_is_read_as_it_was_written(certificate, tmp_path):
    file = tmp_path / "certificate.json"
    certificate.write(file)
    found = Certificate.read(file)
    assert found.statements == certificate.statements
    assert str(found) == str(certificate)
    assert found.to_dict() == certificate.to_dict()
    with pytest.raises(FileExistsError, match="already exists; choose another file"):
        certificate.write(file)
    certificate.write(file, overwrite=True)


def test_a_file_says_nothing_about_single_people(certificate, tmp_path):
    certificate.write(tmp_path / "certificate.json")
    text = (tmp_path / "certificate.json").read_text()
    assert "values" not in text
    assert Certificate.read(tmp_path / "certificate.json").exposure is None
    assert certificate.exposure.shape == (50,)


def test_a_changed_file_is_refused(certificate, tmp_path):
    file = tmp_path / "certificate.json"
    certificate.write(file)
    record = json.loads(file.read_text())
    record["statements"][0]["upper"] = 0.0
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="does not match its checksum"):
        Certificate.read(file)


def test_every_statement_is_a_sentence(certificate):
    for sentence in certificate.sentences():
        assert sentence.startswith("No attacker who sees a released row of these 50 people has")
        assert "if the noise is secret" in sentence
        assert "; not covered: someone" in sentence
        assert sentence.count(". ") == 0
    lines = str(certificate).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("(F) release")
    assert "threat (a)" in str(certificate)


def test_the_largest_leakage_of_a_kind_is_found(certificate):
    assert certificate.leakage("release") == certificate.statements[0].upper
    with pytest.raises(ValueError, match="kind must be one of release, matrix; got 'population'"):
        certificate.leakage("population")


def test_exposures_are_columns_of_a_table_of_people(certificate, tmp_path):
    columns = certificate.exposure_columns()
    assert sorted(columns) == ["exposure_a_sensitive", "exposure_b_sensitive"]
    np.testing.assert_array_equal(columns["exposure_b_sensitive"], certificate.exposure)
    certificate.write(tmp_path / "certificate.json")
    assert Certificate.read(tmp_path / "certificate.json").exposure_columns() == {}
