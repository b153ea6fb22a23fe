"""Run the cases of campaigns in child processes, which a case may crash or hang."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STILL = 120
"""Seconds without a report, after which a child hangs: it waits, for its CPU time is limited."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The cases of a campaign of which the seeds are at least `first` and below `end`."""

    name: str
    end: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """A case that failed. Its files are left in `folder`."""

    campaign: str
    seed: int
    folder: Path
    why: str

    def __str__(self) -> str:
        return f"{self.campaign}, seed {self.seed}, files in {self.folder}:\n{self.why}"


def failures(campaigns: Sequence[Campaign], folder: Path) -> Iterator[Failed]:
    """
    Attempt all cases, in one process, and in a new one after a case that ends it. `folder` keeps
    the files of those that failed.
    """
    left = list(campaigns)
    while left:
        for found in _child(left, folder):
            yield found
            if found.why.startswith("signal"):
                left = left_after(found, left)
                break
        else:
            return


def left_after(found: Failed, campaigns: Sequence[Campaign]) -> list[Campaign]:
    at = [each.name for each in campaigns].index(found.campaign)
    rest = replace(campaigns[at], first=found.seed + 1)
    return [each for each in (rest, *campaigns[at + 1 :]) if each.first < each.end]


def _child(campaigns: Sequence[Campaign], folder: Path) -> Iterator[Failed]:
    said = [f"{each.name}:{each.first}:{each.end}" for each in campaigns]
    command = [sys.executable, "-m", "tests.fuzz", str(folder), *said]
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=env) as child:
        assert child.stdout is not None
        name, seed = campaigns[0].name, campaigns[0].first
        while line := _line(child):
            word, name, number, *rest = line.split(maxsplit=3)
            seed = int(number)
            if word == "failed":
                yield Failed(name, seed, folder / f"{name}-{seed}", json.loads(rest[0]))
        code = child.wait()
    if code:
        yield Failed(name, seed, folder / f"{name}-{seed}", f"signal or exit code {code}")


def _line(child: "subprocess.Popen[bytes]") -> str:
    """The next report; none if the child ended, or is ended because it hangs."""
    assert child.stdout is not None
    if not select.select([child.stdout], [], [], STILL)[0]:
        child.kill()
    return child.stdout.readline().decode()
