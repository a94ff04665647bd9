import numpy as np
import pytest
import torch

from parafair import certify_rows
from parafair.dependence.whitening import spread_basis
from parafair.guarantees import noise_for
from tests.guarantees.conftest import people


@pytest.mark.parametrize("leakage", [0.02, 0.1])
def test_the_noise_does_what_it_should(leakage):
    rows, labels = people(60, 50, columns=2)
    level = noise_for(rows, labels, leakage=leakage)
    basis = spread_basis(torch.from_numpy(rows))
    enough = certify_rows(rows, labels, noise=level * basis)
    less = certify_rows(rows, labels, noise=level / 2 * basis)
    assert enough.statements[0].estimate == pytest.approx(leakage, abs=0.01)
    assert less.statements[0].estimate > leakage


def test_it_may_be_too_much_to_ask():
    rows, labels = people(5, 5)
    with pytest.raises(ValueError, match="needs noise of more than 10 times the spread of rows"):
        noise_for(rows, labels, leakage=1e-6)


def test_equal_groups_need_little():
    rows, _ = people(10, 10)
    assert noise_for(np.tile(rows, (2, 1)), np.repeat(["f", "m"], 20)) <= 0.0101
