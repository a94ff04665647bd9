"""The score of directions of rows, and the criterion that has it."""

import torch

from parafair.data.sensitive import SensitiveFeatures
from parafair.dependence.criterion import Criterion
from parafair.dependence.directions import Directions, level, shorten
from parafair.dependence.whitening import Standardized

PEOPLE = 200
GROUPS = torch.arange(PEOPLE) % 3


def rows_of(seed=0, rank=4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(PEOPLE, rank, generator=generator, dtype=torch.float64)


def columns_of(groups=GROUPS):
    return torch.nn.functional.one_hot(groups)[:, 1:].double()


def score_of(groups=GROUPS):
    return Directions.of(columns_of(groups), len(groups))


def whitened(rows):
    return Standardized.of(rows[None]).whitened


def test_eigenvalues_are_those_of_a_slow_sum():
    columns = columns_of() - columns_of().mean(0)
    columns /= columns.norm(dim=0)
    rows = whitened(rows_of())[0]
    short = rows / (1 + rows.square().sum(1, keepdim=True) / 12).sqrt()
    for found, weights in zip(score_of().eigenvalues(rows[None])[0], columns.T, strict=True):
        matrix = sum(w * torch.outer(y, y) for w, y in zip(weights, short, strict=True))
        torch.testing.assert_close(found, torch.linalg.eigvalsh(matrix / level(4)))


def test_at_chance_eigenvalues_have_a_mean_square_of_one():
    own = score_of()
    orders = [torch.randperm(PEOPLE, generator=torch.manual_seed(seed)) for seed in range(300)]
    found = torch.stack([own.take(order).eigenvalues(whitened(rows_of())) for order in orders])
    assert 0.9 < float(found.square().mean()) < 1.1


def test_the_gradient_matches_finite_differences():
    own, rows, width = score_of(), whitened(rows_of()) * 1.3, 1e-6
    rows[:, :, 0] *= 1 + (GROUPS == 1)
    value, gradient = own.score(rows)
    assert float(value) > 0
    direction = torch.randn(rows.shape, dtype=torch.float64, generator=torch.manual_seed(1))
    ahead, behind = (own.score(rows + sign * width * direction)[0] for sign in (1, -1))
    slope = (gradient * direction).sum((-2, -1))
    torch.testing.assert_close((ahead - behind) / (2 * width), slope, rtol=1e-6, atol=1e-10)


def test_a_rotation_changes_nothing_and_few_people_far_away_little():
    own, rows = score_of(), whitened(rows_of())
    rows[:, :, 0] *= 1 + (GROUPS == 1)
    turn = torch.linalg.qr(rows_of(5)[:4])[0]
    torch.testing.assert_close(own.score(rows @ turn)[0], own.score(rows)[0])
    far = 1e6 * rows
    assert float(shorten(far).square().sum(-1).max()) < 12.1


def test_one_direction_cannot_use_up_what_chance_gives_to_all():
    # The spread of one direction depends on the group; the others are matched in pairs.
    groups, rank = torch.arange(PEOPLE) % 2, 8
    rows = rows_of(rank=rank)
    rows[1::2] = rows[::2] * torch.randn(rank, generator=torch.manual_seed(0)).sign()
    rows[:, 0] *= 1 + 0.3 * groups
    sensitive = SensitiveFeatures.of(groups.numpy())
    criterion = Criterion(sensitive, rows.flatten()[:0], rotation_free=True)
    found = criterion.deviations(rows)
    whole, eigenvalues = found[:-rank], found[-rank:]
    assert float(whole.max()) < 1  # all directions together are at chance
    assert float(eigenvalues.abs().max()) > 1.2


def test_rows_that_are_not_finite_do_not_raise():
    rows = torch.full((1, PEOPLE, 2), torch.nan, dtype=torch.float64)
    assert torch.isfinite(score_of().eigenvalues(rows)).all()
