"""The files that the command lines of the campaign name: good, odd and damaged ones."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from parafair.cli import app
from tests.campaign.namespace import groups, rng, scores, tensor

QUICKLY = ["--max-iter", "2", "--rank", "1"]


def write_files(folder: Path) -> None:
    """Write all files into an empty folder."""
    _write_tables(folder)
    _write_arrays(folder)
    (folder / "out").mkdir()
    _write_results(folder)


def _write_tables(folder: Path) -> None:
    people = pd.DataFrame({"who": [f"p{i}" for i in range(8)], "group": groups(8)})
    people["age"] = np.linspace(20, 60, 8)
    people.to_csv(folder / "people.csv", index=False)
    people.iloc[:5].to_csv(folder / "fewer.csv", index=False)
    people.assign(group=["=1+1", "\x1b[31m"] * 4).to_csv(folder / "evil.csv", index=False)
    table = scores.to_table("score")
    table.to_csv(folder / "scores.csv", index=False)
    table.to_csv(folder / "scores.tsv", index=False, sep="\t")
    table.to_parquet(folder / "scores.parquet")
    table.drop(columns="score").iloc[:5].to_csv(folder / "cells.csv", index=False)
    pd.concat([table, table]).to_csv(folder / "twice.csv", index=False)
    table.iloc[::9].to_csv(folder / "some.csv", index=False)
    places = pd.DataFrame([[0, 0, 0], [7, 3, 2]], columns=["mode_0", "mode_1", "mode_2"])
    places.to_csv(folder / "positions.csv", index=False)
    (folder / "parts").mkdir()
    for number in range(2):
        table.iloc[number::2].to_parquet(folder / "parts" / f"{number}.parquet", index=False)
    text = (folder / "scores.csv").read_text(encoding="utf-8")
    for name, content in {
        "empty.csv": b"",
        "header.csv": b"who,subject,date,score\n",
        "ragged.csv": b"who,subject,date,score\na,b\na,b,c,d,e,f\n",
        "latin.csv": text.encode("latin-1"),
        "binary.csv": bytes(range(256)) * 4,
        "words.csv": b"who,subject,date,score\na,b,1,many\n",
        "cut.parquet": (folder / "scores.parquet").read_bytes()[:200],
        "entries.tns": b"1 1 1 2.5\n2 3 1 0.5\n3 1 2 1.5\n4 2 2 1\n",
        "counts.tns": b"1 1 1 2\n2 3 1 1\n3 1 2 5\n4 2 2 1\n",
        "words.tns": b"1 1 x\n",
        "huge.tns": b"300000000000 1 1 2\n",
        "zipped.tns.gz": b"\x1f\x8b\x08\x00nothing",
        "notes.txt": b"precious\n",
    }.items():
        (folder / name).write_bytes(content)


def _write_arrays(folder: Path) -> None:
    np.save(folder / "tensor.npy", tensor)
    np.save(folder / "matrix.npy", tensor[:, :, 0])
    np.save(folder / "rows.npy", rng(0).normal(size=(8, 2)))
    np.save(folder / "zero.npy", tensor * 0)
    np.save(folder / "nan.npy", tensor * np.nan)
    np.save(folder / "inf.npy", np.full((8, 4, 3), np.inf))
    np.save(folder / "text.npy", tensor.astype(str))
    np.save(folder / "object.npy", tensor.astype(object), allow_pickle=True)
    np.save(folder / "complex.npy", tensor * 1j)
    np.save(folder / "line.npy", np.arange(8.0))
    np.savez(folder / "one.npz", a=tensor)
    np.savez(folder / "two.npz", a=tensor, b=tensor)
    data = (folder / "tensor.npy").read_bytes()
    (folder / "cut.npy").write_bytes(data[:300])
    claim = data.replace(b"(8, 4, 3), }" + b" " * 10, b"(9999999999999999,), }")
    (folder / "claims.npy").write_bytes(claim)
    (folder / "nested.npy").write_bytes(b"\x93NUMPY\x01\x00\x2c\x01" + b"(" * 300)


def _write_results(folder: Path) -> None:
    """A run, a frontier and damaged copies, made by the commands themselves."""
    people = ["--sensitive", str(folder / "people.csv"), "--key", "who"]
    table = ["--modes", "who,subject,date", "--value", "score"]
    attack = ["--attackers", "linear", "--folds", "2", "--repeats", "1", "--permutations", "2"]
    fit = ["fit", str(folder / "scores.csv"), *table, *people, *QUICKLY]
    run(*fit, "--out", str(folder / "run"))
    curve = ["frontier", str(folder / "scores.csv"), *table, *people, *QUICKLY, *attack]
    run(*curve, "--strengths", "0,1", "--out", str(folder / "curve"))
    plain = ["fit", str(folder / "tensor.npy"), "--method", "none", *QUICKLY]
    run(*plain, "--out", str(folder / "plain"))
    array = ["fit", str(folder / "tensor.npy"), *people[:2], "--sensitive-columns", "group"]
    run(*array, "--max-iter", "2", "--ranks", "2,2,2", "--out", str(folder / "tucker"))
    learned = ["--encoder", "linear", "--encoder-steps", "2", "--noise", "0.5"]
    run(*array, *QUICKLY, *learned, "--out", str(folder / "encoded"))
    run(*array, *QUICKLY, "--method", "sliced-transport", "--out", str(folder / "mapped"))
    run("sort", str(folder / "parts"), *table, "--out", str(folder / "sorted"))
    shutil.copytree(folder / "sorted", folder / "broken")
    (folder / "broken" / "part-00000.parquet").write_bytes(b"PAR1" * 10)
    shutil.copytree(folder / "run", folder / "damaged")
    (folder / "damaged" / "factors.safetensors").write_bytes(b"\x00" * 40)


def run(*arguments: str) -> None:
    """Run a command in this process, without its output."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output


if __name__ == "__main__":
    write_files(Path(sys.argv[1]))
