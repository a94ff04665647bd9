"""A short part of the campaign with a fixed seed, and the rules by which it judges."""

import inspect
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import parafair
from parafair import Certificate, FairCP, Measure, SensitiveFeatures, TensorData
from parafair.audits.evaluation import Score
from parafair.data.randomness import as_seed
from parafair.guarantees.exposure import Exposure
from tests.campaign import __main__ as campaign
from tests.campaign import api, parallel, shell
from tests.campaign.counts import Counts
from tests.campaign.judging import judge_exception, undefined
from tests.campaign.outcomes import Kind, Outcome
from tests.campaign.surroundings import changes, fingerprint, restore, state
from tests.campaign.target import of
from tests.campaign.targets import TARGETS

# Public names that take no arguments of a caller, and why.
NOT_CALLED = {
    "Audit": "made by `audit`; its methods are called",
    "Certificate": "made by `certify`; its methods are called",
    "ConvergenceWarning": "a warning",
    "Fit": "made by solvers",
    "Frontier": "made by `frontier`; its methods are called",
    "Interrupted": "an exception",
    "Measure": "a row of an audit",
    "ParafairWarning": "a warning",
    "show_versions": "it has no arguments",
    "ParityLimit": "made by `parity_limit`; its methods are called",
    "Rankings": "made by `evaluate_rankings`",
    "SensitiveFeatures": "its class methods are called",
    "Status": "an enumeration",
    "TensorData": "its class methods are called",
    "Tuning": "made by `tune`",
}


def report(outcomes):
    found = Counts()
    for outcome in outcomes:
        found.add("", outcome)
    return "\n\n".join(
        f"{o.kind.label}: {o.target}: {o.detail}\n{o.reproduction}" for o in found.failures.values()
    )


def test_random_calls_end_well(tmp_path):
    assert not report(islice(api.fuzz(0, tmp_path), 150))


def test_random_command_lines_end_well(tmp_path):
    assert not report(islice(shell.fuzz(0, tmp_path), 25))


@pytest.mark.slow
def test_many_random_calls_end_well(tmp_path):
    assert not report(islice(api.fuzz(1, tmp_path), 3000))


def test_counts_of_runs_add_up_even_if_they_are_ended(tmp_path, monkeypatch):
    def ended(seed, folder):
        yield Outcome("fit", Kind.FINE)
        yield Outcome("fit", Kind.RAW, "KeyError", reproduction="fit()")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setitem(campaign.PARTS, "api", ended)
    handler = signal.signal(signal.SIGTERM, campaign._end)
    try:
        for seed in (1, 2):
            campaign.run(60, seed, ["api"], tmp_path / f"{seed}.json")
    finally:
        signal.signal(signal.SIGTERM, handler)
    total = Counts.read(sorted(tmp_path.iterdir()))
    assert total.seeds == [1, 2]
    assert total.kinds == {"api": {Kind.FINE: 2, Kind.RAW: 2}}
    assert total.targets == {"api": {"fit": 4}}
    assert [failure.reproduction for failure in total.failures.values()] == ["fit()"]


def test_counts_name_the_version_and_what_was_not_tried(tmp_path, capsys):
    first = Counts([1], ["0.2.0 (a)"], [])
    first.add("damage", Outcome("model/model.json", Kind.REFUSED))
    first.add("damage", Outcome("model/factors.safetensors", Kind.FINE))
    first.write(tmp_path / "1.json")
    Counts([2], ["0.2.0 (b)"], ["Polars"]).write(tmp_path / "2.json")
    Counts.read(sorted(tmp_path.iterdir())).show()
    said = " ".join(capsys.readouterr().out.split())
    assert "model 2" in said
    assert "not tried: inputs of Polars, which is not installed" in said
    assert "2 attempts on 0.2.0 (a), 0.2.0 (b) with seeds 1, 2" in said


def test_a_part_that_fails_itself_is_a_failure(monkeypatch):
    def broken(seed, folder):
        yield Outcome("fit", Kind.FINE)
        raise RuntimeError("the folder is gone")

    monkeypatch.setitem(campaign.PARTS, "api", broken)
    monkeypatch.setitem(campaign.PARTS, "kills", lambda *_: iter([Outcome("fit", Kind.FINE)]))
    found = campaign.run(60, 1, ["api", "kills"])
    assert found.kinds == {"api": {Kind.FINE: 1, Kind.RAW: 1}, "kills": {Kind.FINE: 1}}
    (failure,) = found.failures.values()
    assert "RuntimeError: the folder is gone" in failure.detail


def test_parts_are_dealt_to_processes_by_their_costs():
    parts = list(campaign.PARTS)
    assert parallel.deal(parts, len(parts) - 1) == [parts] * (len(parts) - 1)
    dealt = parallel.deal(parts, 15)
    assert len(dealt) == 15
    assert {part for (part,) in dealt} == set(parts)
    assert dealt.count(["api"]) > dealt.count(["races"]) == 1


def test_campaigns_with_near_seeds_share_no_case():
    seeds = [own for seed in range(7001, 7101) for own in parallel.seeds_of(seed, 16)]
    assert len(set(seeds)) == 1600
    assert parallel.seeds_of(7001, 4) == parallel.seeds_of(7001, 16)[:4]
    cases = {repr(api.draw_case(seed, number)) for seed in seeds[:4] for number in range(5)}
    assert len(cases) > 15  # a call with few arguments may be drawn twice


def test_a_process_that_crashes_is_a_failure(tmp_path):
    (tmp_path / "printed").write_text("MemoryError\n", encoding="utf-8")
    for code in (1, -signal.SIGKILL):
        ended = subprocess.Popen([sys.executable, "-c", f"import os; os._exit({abs(code)})"])
        ended.wait()
        ended.returncode = code
        (failure,) = parallel.Worker(ended, ["api"], tmp_path).counts().failures.values()
        assert f"the process of api ended with code {code}" in failure.detail
        assert "MemoryError" in failure.reproduction


@pytest.mark.slow
def test_processes_that_are_asked_to_end_lose_nothing(tmp_path):
    file = tmp_path / "counts.json"
    words = ["--processes", "2", "--seconds", "600", "--seed", "1", "--json", str(file), "blinding"]
    with (tmp_path / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaign", *words], stdout=printed, stderr=printed
        )
        while not (file.exists() and Counts.read([file]).attempts):
            assert process.poll() is None
            time.sleep(0.5)
        before = Counts.read([file])
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    after = Counts.read([file])
    assert sorted(after.seeds) == sorted(parallel.seeds_of(1, 2))
    assert after.attempts >= before.attempts
    assert f"{after.attempts:,} attempts" in (tmp_path / "printed").read_text(encoding="utf-8")


def test_every_public_name_is_called():
    called = {target.name.split(".")[0] for target in TARGETS}
    names = {name for name in parafair.__all__ if not inspect.ismodule(getattr(parafair, name))}
    missing = sorted(names - called - set(NOT_CALLED))
    assert not missing, f"add {missing} to TARGETS, or to NOT_CALLED with a reason"


def test_every_argument_has_values():
    for target in TARGETS:
        for place in range(len(target.callables)):
            for name in target.parameters(place):
                assert target.sort(name), f"add {name} of {target.name} to SORTS"


def test_a_case_is_known_by_its_seed_and_number():
    assert api.draw_case(3, 14).source == api.draw_case(3, 14).source
    assert api.draw_case(3, 14).source != api.draw_case(3, 15).source


def work():
    while True:
        pass


def test_a_call_is_slow_by_the_time_of_the_processor(monkeypatch):
    monkeypatch.setattr(api, "LONGEST", 0.2)
    monkeypatch.setitem(api.NAMES, "wait", lambda: time.sleep(0.5))
    monkeypatch.setitem(api.NAMES, "work", work)
    with api.stop_slow_calls():
        for name, kind in (("wait", Kind.FINE), ("work", Kind.SLOW)):
            assert api.run_case(api.Case(of(name, api.NAMES[name]), ({},))).kind is kind


def raised(function, *arguments, names=("random_state",)):
    try:
        function(*arguments)
    except Exception as error:
        return judge_exception(error, names)
    return None


def refuse(message):
    raise ValueError(message)


def test_only_clear_messages_of_parafair_itself_are_refusals():
    assert raised(as_seed, "x")[0] is Kind.REFUSED
    assert raised(as_seed, "x", names=["other"])[0] is Kind.UNCLEAR
    assert raised(refuse, "random_state must be a number, got 'x'")[0] is Kind.RAW
    assert raised(np.zeros, -1)[0] is Kind.RAW


def test_a_message_names_an_argument_or_a_given_path(tmp_path, monkeypatch):
    assert raised(as_seed, "x", names=[""])[0] is Kind.UNCLEAR
    monkeypatch.chdir(tmp_path)
    strange = "\u202e\x1b[31m"
    Path(strange).write_text("{}")
    assert raised(Certificate.read, strange, names=[strange])[0] is Kind.REFUSED
    target = next(target for target in TARGETS if target.name == "certificate.write")
    given = api.names_of(api.Case(target, ({},)), {"_0_path": "a.json", "_0_overwrite": "b"})
    assert "a.json" in given
    assert "b" not in given


def test_undefined_numbers_are_found_in_results():
    model = FairCP(1, method="none", max_iter=1, tol=0.0).fit(np.ones((3, 2)))
    assert not undefined(model)
    model.reconstruction_err_ = float("nan")
    assert undefined(model) == "result['reconstruction_err_']"
    assert undefined([1.0, {"a": np.array([np.inf])}]) == "result[...]['a']"
    assert not undefined(TensorData.from_array([[1.0, np.nan]]))


def test_a_changed_process_is_noticed():
    before = state()
    np.random.seed(1)
    assert changes(before, state()) == ["random state of NumPy"]
    before = state()
    np.seterr(divide="raise")
    assert changes(before, state()) == ["floating point errors"]
    restore(before)
    assert not changes(before, state())


def test_a_changed_argument_is_noticed():
    array = np.ones(3)
    features = SensitiveFeatures.of(["a", "b"])
    before = fingerprint([array, features])
    assert fingerprint([array, features]) == before
    array[0] = 2
    assert fingerprint([array, features]) != before


def test_undefined_numbers_with_a_reason_are_not_silent():
    nan = float("nan")
    assert not undefined(Measure("s", "paper", "KHSIC", nan, about="undefined: it overflows"))
    assert undefined(Measure("s", "paper", "KHSIC", nan, about="0 to 1"))
    assert undefined(Measure("s", "leakage", "leakage", nan, about="undefined: it overflows"))
    assert not undefined(Score("rmse", "s", "a", nan, 0))
    assert undefined(Score("rmse", "s", "a", nan, 3))
    exposures = (Exposure("s", "b", 0.5, 0.9, 0.9, values=np.array([0.9, nan])),)
    note = "1 of 2 people had no entries in the fit; nothing is certified about them."
    said = Certificate((), exposures, 0.95, 1, 100, people=1, notes=(note,))
    assert not undefined(said)
    assert undefined(replace(said, notes=()))
    assert undefined(replace(said, people=2))
