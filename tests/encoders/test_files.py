from dataclasses import dataclass

import pytest
import torch

from parafair.encoders import LinearEncoder
from parafair.encoders.files import ENCODER_FILE, read_encoder, write_encoder
from parafair.storage import new_folder

SHAPE, RANK = (9, 4), 2


@dataclass(frozen=True, eq=False)
class Network:
    """An encoder with several tensors in one field."""

    mode: int
    layers: tuple[torch.Tensor, ...]
    sizes: tuple[int, ...] = ()
    slope: float = 0.5

    def encode(self, data):
        raise NotImplementedError

    def check(self, shape, rank):
        pass


@pytest.fixture
def encoder():
    return LinearEncoder(0, torch.zeros(4), torch.ones(4, 2), torch.zeros(2))


def write(folder, encoder):
    with new_folder(folder, overwrite=True) as target:
        write_encoder(target, encoder)


def test_all_kinds_of_fields_come_back(tmp_path):
    network = Network(1, (torch.ones(2), torch.zeros(3, 1)), (4, 5))
    write(tmp_path / "model", network)
    found = read_encoder(tmp_path / "model", SHAPE, RANK, classes=[Network])
    assert (found.mode, found.sizes, found.slope) == (1, (4, 5), 0.5)
    assert [layer.shape for layer in found.layers] == [(2,), (3, 1)]
    with pytest.raises(ValueError, match="'Network', which is not known here; pass your own"):
        read_encoder(tmp_path / "model", SHAPE, RANK)


def test_a_folder_without_an_encoder_has_none(tmp_path):
    assert read_encoder(tmp_path, SHAPE, RANK) is None


def test_files_that_are_damaged_or_of_another_model_are_refused(tmp_path, encoder):
    folder = tmp_path / "model"
    write(folder, encoder)
    with pytest.raises(ValueError, match="it is for 4 entries per person, but the model has 5"):
        read_encoder(folder, (9, 5), RANK)
    for file in sorted(folder.glob("encoder*")):
        whole = file.read_bytes()
        file.write_bytes(whole + b" ")
        with pytest.raises(ValueError, match="does not match its checksum"):
            read_encoder(folder, SHAPE, RANK)
        file.unlink()
        with pytest.raises(FileNotFoundError, match="is missing; fit again|does not exist; give"):
            read_encoder(folder, SHAPE, RANK)
        file.write_bytes(whole)
    weights = torch.full((4, 2), torch.nan)
    write(folder, LinearEncoder(0, encoder.mean, weights, encoder.constant))
    with pytest.raises(ValueError, match="entries that are not finite"):
        read_encoder(folder, SHAPE, RANK)
    assert (folder / ENCODER_FILE).is_file()
