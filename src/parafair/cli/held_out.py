"""Entries that a command predicts: a share that is held out, or those of a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from parafair.cli.options import DATA, option
from parafair.cli.people import Loaded
from parafair.cli.shell import echo
from parafair.cli.tensors import TensorOptions, error_prefix
from parafair.data.splits import Split, align_entries, hold_out, split_cells
from parafair.data.tensor_data import TensorData


@dataclass(frozen=True)
class HeldOutOptions:
    """What to predict."""

    test_size: Annotated[
        float | None,
        option(DATA, "Hold out this share of the entries and predict them, such as 0.2."),
    ] = None
    test: Annotated[
        Path | None,
        option(DATA, "Predict the entries of this file, which is read like the data."),
    ] = None

    def record(self) -> dict[str, Any]:
        """Return the options as values for JSON."""
        return {"test_size": self.test_size, "test": None if self.test is None else str(self.test)}

    def split(self, loaded: Loaded, tensor: TensorOptions, seed: int) -> Split[TensorData] | None:
        """Return the entries to fit and to predict; None if nothing is predicted.

        Shows what was read.

        Args:
            loaded: What the files of the command hold.
            tensor: How its data was read.
            seed: Seed of a share that is held out.
        """
        if self.test is not None and self.test_size is not None:
            raise ValueError(
                "--test and --test-size cannot both be given; choose one of them: a file, or a "
                "share of the data"
            )
        if loaded.data.is_streamed and (self.test_size, self.test) != (None, None):
            raise ValueError(
                f"--test and --test-size need data in memory, but {tensor.tensor} is streamed; "
                "leave them out, keep some entries out of the sorted files, and compare them with "
                "parafair predict after the fit"
            )
        found = None
        if self.test_size is not None:
            found = split_cells(loaded.data, test_size=self.test_size, random_state=seed)
        elif self.test is not None:
            test = read_entries(self.test, loaded.data, tensor)
            found = Split(hold_out(loaded.data, test.cells), None, test)
        if str(loaded):
            echo(str(loaded))
        return found


def read_entries(path: Path, train: TensorData, tensor: TensorOptions) -> TensorData:
    """Read entries to predict, at the positions that their labels have in the data."""
    with error_prefix(path):
        # Entries that the file does not have are not to be predicted.
        absent = tensor.absent and "missing"
        test = replace(tensor, tensor=path, absent=absent).read()
        return align_entries(test, train, labeled=tensor.has_labels)
