"""States and fits as arrays and plain values, and back; a file never names code to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

import torch
from torch import Tensor

from parafair.algebra.cp_tensor import CPTensor
from parafair.algebra.tucker_tensor import Multilinear

C = TypeVar("C", bound=type)

# The classes that a checkpoint may hold, by name.
PACKED: dict[str, type] = {"CPTensor": CPTensor, "Multilinear": Multilinear}


def packed(kind: C) -> C:
    """Let a checkpoint hold the objects of a class: a dataclass, or an enumeration."""
    PACKED[kind.__name__] = kind
    return kind


def is_packed(value: object) -> bool:
    """Tell whether a checkpoint can hold an object."""
    return type(value).__name__ in PACKED


def pack(value: Any, arrays: dict[str, Tensor]) -> Any:
    """Return plain values that stand for an object; its tensors are added to `arrays`."""
    if isinstance(value, Tensor):
        name = f"{len(arrays)}"
        # Tensors that share memory are stored apart.
        arrays[name] = value.detach().clone(memory_format=torch.contiguous_format)
        return {"array": name}
    if isinstance(value, Enum):
        return {"kind": type(value).__name__, "member": value.name}
    if is_dataclass(value) and is_packed(value):
        kept = {f.name: pack(getattr(value, f.name), arrays) for f in fields(value) if f.init}
        return {"kind": type(value).__name__, "fields": kept}
    if isinstance(value, Mapping):
        return {"pairs": [[key, pack(each, arrays)] for key, each in value.items()]}
    if isinstance(value, (tuple, list)):
        return {"items": [pack(each, arrays) for each in value], "list": isinstance(value, list)}
    if isinstance(value, float):
        return {"float": value.hex()}  # also NaN and infinity, which JSON does not have
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")


def unpack(record: Any, arrays: Mapping[str, Tensor]) -> Any:
    """Return the object that `pack` was given."""
    if not isinstance(record, Mapping):
        return record
    if "array" in record:
        return arrays[record["array"]]
    if "float" in record:
        return float.fromhex(record["float"])
    if "pairs" in record:
        return {key: unpack(each, arrays) for key, each in record["pairs"]}
    if "items" in record:
        found = [unpack(each, arrays) for each in record["items"]]
        return found if record["list"] else tuple(found)
    kind = PACKED[record["kind"]]
    if "member" in record:
        return kind[record["member"]]  # type: ignore[index]
    return kind(**{name: unpack(each, arrays) for name, each in record["fields"].items()})
