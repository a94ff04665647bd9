"""What processes tell torchrun."""

from torch.distributed.elastic.multiprocessing import errors

from parafair.torchrun import tell_torchrun


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
