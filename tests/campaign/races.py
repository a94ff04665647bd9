"""Two processes that write to the same place at the same time: one wins, the other says so."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parafair import FairCP
from parafair.storage import write_text
from tests.campaign.faults import PROCESSES
from tests.campaign.outcomes import Kind, Outcome
from tests.campaign.samples import small_model

ROUNDS = 20


def _save(model: FairCP, place: Path) -> None:
    model.save(place)


def _replace(model: FairCP, place: Path) -> None:
    model.save(place, overwrite=True)


def _write(model: FairCP, place: Path) -> None:
    write_text(place, str(model.random_state) * 2000, overwrite=False)


def _seed_of_model(place: Path) -> int:
    return int(FairCP.load(place).random_state)


def _seed_of_text(place: Path) -> int:
    text = place.read_text(encoding="utf-8")
    return int(text[0]) if text == text[0] * 2000 else -1


# How to write, how to read whose it is, and whether both may succeed one after the other.
RACES: dict[str, tuple[Callable[[FairCP, Path], None], Callable[[Path], int], bool]] = {
    "FairCP.save": (_save, _seed_of_model, False),
    "FairCP.save(overwrite=True)": (_replace, _seed_of_model, True),
    "write_text": (_write, _seed_of_text, False),
}


def _racer(race: str, seed: int, folder: Path, barrier: Any, pipe: Any) -> None:
    """Write to one place after another, each at the same time as the other process."""
    model, chance, write = small_model(seed), random.Random(seed), RACES[race][0]
    for number in range(ROUNDS):
        barrier.wait(60)
        time.sleep(chance.random() * 2e-3)
        try:
            write(model, folder / str(number))
        except FileExistsError as error:
            pipe.send(str(error))
        except Exception as error:
            pipe.send(f"raw {type(error).__name__}: {error}")
        else:
            pipe.send("")


def race(name: str, folder: Path) -> Iterator[Outcome]:
    """Let two processes write to the same places."""
    _, read, both = RACES[name]
    folder.mkdir()
    if both:
        for number in range(ROUNDS):
            small_model(9).save(folder / str(number))
    barrier, pipes = PROCESSES.Barrier(2), [PROCESSES.Pipe() for _ in range(2)]
    racers = [
        PROCESSES.Process(target=_racer, args=(name, seed, folder, barrier, pipes[seed][1]))
        for seed in range(2)
    ]
    for process in racers:
        process.start()
    ends = [[pipes[seed][0].recv() for _ in range(ROUNDS)] for seed in range(2)]
    for process in racers:
        process.join()
    for number, told in enumerate(zip(*ends, strict=True)):
        yield _judge(name, read, folder / str(number), told, both=both)


def _judge(
    name: str, read: Callable[[Path], int], place: Path, told: tuple[str, ...], *, both: bool
) -> Outcome:
    winners = [seed for seed in range(2) if not told[seed]]
    raw = [text for text in told if text.startswith("raw")]
    show = f"two processes at the same time: {name}; they said {told}"
    if raw:
        return Outcome(
            name, Kind.RAW, raw[0].replace(str(place), "the folder")[:200], reproduction=show
        )
    if not winners or (len(winners) > 1 and not both) or read(place) not in winners:
        return Outcome(name, Kind.LOST, f"{len(winners)} of 2 succeeded", reproduction=show)
    left = [path.name for path in place.parent.glob(f".{place.name}-*")]
    if left:
        return Outcome(
            name, Kind.LOST, "left behind a temporary file", reproduction=f"{show}: {left}"
        )
    return Outcome(name, Kind.FINE if len(winners) == 2 else Kind.REFUSED)


def races(seed: int, folder: Path) -> Iterator[Outcome]:
    """Let two processes write to the same place, again and again."""
    PROCESSES.set_forkserver_preload(["tests.campaign.samples"])
    number = seed
    while True:
        for name in RACES:
            number += 1
            yield from race(name, folder / str(number))
