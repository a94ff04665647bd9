"""Damage to stored files: whatever changes, it is refused or makes no difference.

A file is changed, read with everything that reads it, and put back. Reading returns the same as
before, or raises an error that names the file, or warns that the file was changed.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from parafair.errors import ParafairWarning
from parafair.storage import seal
from parafair.temporaries import MANIFEST_FILE
from tests.campaign.kinds import KINDS
from tests.campaign.outcomes import Kind, Outcome
from tests.campaign.samples import Sample, difference

Random = random.Random


def flip_bit(data: bytes, chance: Random) -> bytes:
    """Flip one bit."""
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def replace_bytes(data: bytes, chance: Random) -> bytes:
    """Replace a few bytes that follow each other."""
    begin = chance.randrange(len(data))
    end = min(len(data), begin + chance.choice((1, 1, 4, 16, 200)))
    return data[:begin] + chance.randbytes(end - begin) + data[end:]


def cut(data: bytes, chance: Random) -> bytes:
    """Cut off the end; often all of it, or the last byte."""
    return data[: chance.choice((0, len(data) - 1, chance.randrange(len(data))))]


def append(data: bytes, chance: Random) -> bytes:
    """Append a few bytes, or the file itself."""
    return data + chance.choice((b"\n", b"\0" * 8, chance.randbytes(5), data))


def remove_bytes(data: bytes, chance: Random) -> bytes:
    """Remove a few bytes in the middle."""
    begin = chance.randrange(len(data))
    return data[:begin] + data[begin + chance.choice((1, 8, 100)) :]


VALUES = (None, 0, -1, 1e300, -0.5, 10**30, True, "", "x", [], [1], {}, {"name": "x"}, [[]], 3)


def edit(record: Any, chance: Random) -> Any:
    """Return a record with one value changed, removed or added, at any depth."""
    places = list(_places(record))
    holder, key = chance.choice(places)
    action = chance.random()
    if action < 0.1 and isinstance(holder, dict):
        del holder[key]
    elif action < 0.15 and isinstance(holder, dict):
        holder["more"] = 1
    elif action < 0.25 and isinstance(holder, list):
        holder.append(holder[key]) if chance.random() < 0.5 else holder.pop(key)
    elif action < 0.6 and isinstance(holder[key], (int, float)):
        holder[key] = holder[key] * chance.choice((-1, 0.5, 1 + 1e-12)) + chance.choice((0, 1))
    else:
        holder[key] = chance.choice(VALUES)
    return record


def _places(record: Any) -> Iterator[tuple[Any, Any]]:
    keys = record if isinstance(record, dict) else range(len(record))
    for key in list(keys):
        yield record, key
        if isinstance(record[key], (dict, list)):
            yield from _places(record[key])


def edit_json(data: bytes, chance: Random) -> bytes:
    """Change one value; it stays JSON."""
    text = json.dumps(edit(json.loads(data), chance), indent=1)
    return text.replace("1e+300", "Infinity").encode() + b"\n"


def space_json(data: bytes, chance: Random) -> bytes:
    """Write the same JSON with other white space."""
    return json.dumps(json.loads(data), indent=chance.choice((None, 0, 3))).encode()


DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool, torch.float16)


def edit_arrays(data: bytes, chance: Random) -> bytes:
    """Change the entries, the type or the shape of one array, remove it, or add another."""
    arrays = load(data)
    name = chance.choice(sorted(arrays))
    array, action = arrays[name], chance.randrange(8)
    if action == 0:
        del arrays[name]
    elif action == 1:
        arrays[chance.choice(("more", "factor_9", "noise_9", f"{name}_0"))] = array
    elif action == 2:
        arrays[name] = array.to(chance.choice(DTYPES))
    elif action == 3:
        arrays[name] = chance.choice((array.flatten(), array[:0], array[None], array.sum()))
    elif action == 4:
        arrays[name] = array.repeat_interleave(2, chance.randrange(max(1, array.ndim)))
    elif action == 5:
        arrays[name] = chance.choice((0.0, -1.0, 1e300, 1e-300)) * array
    elif action == 6:
        arrays[name] = array * chance.choice((float("nan"), float("inf")))
    else:
        arrays[name] = array.flip(tuple(range(array.ndim)))
    return save({key: each.contiguous().clone() for key, each in arrays.items()})


BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(flip_bit,) * 6,
    replace_bytes,
    replace_bytes,
    cut,
    append,
    remove_bytes,
)
JSON = (edit_json, edit_json, edit_json, space_json)


@dataclass(frozen=True)
class Damaged:
    """A folder to damage, another one of its kind, and how the first is read.

    Attributes:
        name: Its kind.
        sample: Writes and reads it.
        folder: The folder.
        twin: Another folder with files of the same names.
        whole: What reading the folder returns.
    """

    name: str
    sample: Sample
    folder: Path
    twin: Path
    whole: Any

    @classmethod
    def make(cls, name: str, folder: Path) -> Damaged:
        """Write two folders of a kind."""
        sample, paths = KINDS[name], (folder / name, folder / f"{name} twin")
        for seed, path in enumerate(paths):
            sample.write(path, seed)
        return cls(name, sample, *paths, sample.see(paths[0]))

    def attempt(self, chance: Random) -> Outcome:
        """Damage one file, read the folder, and put the file back."""
        file = chance.choice(sorted(path for path in self.folder.rglob("*") if path.is_file()))
        before = file.read_bytes()
        forged: dict[Path, bytes] = {}
        kind = chance.random()
        if kind < 0.04:
            file.unlink()
            how = "delete"
        elif kind < 0.1 and len(list(self.folder.iterdir())) > 1:
            how = self._swap(file, chance)
        elif kind < 0.2 and file.suffix in (".json", ".safetensors"):
            forged = self._forge(file, chance)
            how = "edit and seal"
        else:
            change = chance.choice((*BYTES, *(JSON if file.suffix == ".json" else ())))
            file.write_bytes(change(before, chance))
            how = change.__name__
        try:
            return self._judge(file, before, how, forged=bool(forged))
        finally:
            file.write_bytes(before)
            for path, data in forged.items():
                path.write_bytes(data)

    def _swap(self, file: Path, chance: Random) -> str:
        """Put a file of the same name from elsewhere in its place."""
        others = [*self.twin.rglob(file.name), *self.folder.rglob(file.name)]
        other = chance.choice(sorted(path for path in others if path != file))
        shutil.copyfile(other, file)
        return "swap with a twin" if self.twin in other.parents else "swap within"

    def _forge(self, file: Path, chance: Random) -> dict[Path, bytes]:
        """Edit a record or an array and make all checksums fit, as somebody could on purpose."""
        manifest = file.with_name(MANIFEST_FILE)
        before = {path: path.read_bytes() for path in (file, manifest) if path.exists()}
        if file.suffix == ".safetensors":
            file.write_bytes(edit_arrays(before[file], chance))
        else:
            file.write_text(json.dumps(seal(edit(json.loads(before[file]), chance))))
        if manifest != file and manifest in before:
            digests = json.loads(before[manifest])
            if file.name in digests["files"]:
                digests["files"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
            manifest.write_text(json.dumps(seal(digests)))
        return before

    def _judge(self, file: Path, before: bytes, how: str, *, forged: bool) -> Outcome:
        """Read the folder and say what came of it."""
        where = file.relative_to(self.folder)
        target = f"{self.name}/{file.name}"
        told = f"{how}: {where}"
        after = file.read_bytes() if file.exists() else None
        show = f"{told}\n{_change(before, after)}"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = self.sample.see(self.folder)
            except (ValueError, OSError) as error:
                said = " ".join([str(error), *(str(warning.message) for warning in caught)])
                own = type(error) is ValueError or getattr(error, "errno", None) is None
                # Of another folder's record, or a forged one, more than one file may be wrong.
                whole = forged or how.startswith("swap")
                if own and str(file.parent if whole else file) in said:
                    return Outcome(target, Kind.REFUSED)
                kind = Kind.UNCLEAR if own else Kind.RAW
                return Outcome(target, kind, f"{how}: {_line(error)}", reproduction=show)
            except Exception as error:
                return Outcome(target, Kind.RAW, f"{how}: {_line(error)}", reproduction=show)
        said = [w for w in caught if issubclass(w.category, ParafairWarning)]
        if any(str(self.folder) in str(warning.message) for warning in said):
            return Outcome(target, Kind.REFUSED)
        changed = "" if forged else difference(self.whole, found)
        if changed:
            place = re.sub(r"\d+", "n", changed.partition(":")[0])
            told = f"{show}\n{changed}"
            return Outcome(target, Kind.DIFFERENT, f"{how}: {place}", reproduction=told)
        return Outcome(target, Kind.FINE)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def _change(before: bytes, after: bytes | None) -> str:
    """Return the first bytes that differ, in a line."""
    if after is None:
        return "the file is gone"
    same = next(
        (place for place, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    return f"at byte {same}: {before[same : same + 40]!r} became {after[same : same + 40]!r}"


def damage(seed: int, folder: Path) -> Iterator[Outcome]:
    """Damage the folders of all kinds in turn, without end."""
    chance = Random(seed)
    damaged = [Damaged.make(name, folder) for name in KINDS]
    while True:
        for each in damaged:
            yield each.attempt(chance)
