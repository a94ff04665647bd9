"""What processes tell torchrun."""

import os
import subprocess
import sys

import pytest
from torch.distributed.elastic.multiprocessing import errors

from parafair.torchrun import prints_results, tell_torchrun


def test_a_message_has_the_form_that_torchrun_reads(tmp_path, monkeypatch):
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    monkeypatch.setenv("RANK", "1")
    tell_torchrun("the disk is full")
    failure = errors.ProcessFailure(local_rank=1, pid=7, exitcode=2, error_file=str(file))
    assert "the disk is full" in errors.ChildFailedError("parafair", {1: failure}).format_msg()


def test_other_processes_write_nothing(tmp_path, monkeypatch):
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    monkeypatch.delenv("RANK", raising=False)
    tell_torchrun("the disk is full")
    assert not file.exists()


def test_of_several_processes_one_prints_results(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert prints_results()
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, expected in (("0", True), ("1", False)):
        monkeypatch.setenv("RANK", rank)
        assert prints_results() == expected


@pytest.mark.parametrize(("rank", "printed"), [("0", "once\n"), ("1", "")])
def test_the_command_line_of_other_processes_is_quiet_from_the_start(rank, printed):
    pytest.importorskip("typer")
    code = "from parafair.cli.shell import echo; echo('once')"
    environment = {**os.environ, "RANK": rank, "WORLD_SIZE": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == printed
