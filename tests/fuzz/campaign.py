"""Run the cases of a campaign in child processes, which a case may crash or hang."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STILL = 120
"""Seconds without a report, after which a child hangs: it waits, for its CPU time is limited."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A case that failed. Its files are left in `folder`."""

    seed: int
    folder: Path
    why: str

    def __str__(self) -> str:
        return f"seed {self.seed}, files in {self.folder}:\n{self.why}"


def failures(campaign: str, count: int, folder: Path, first: int = 0) -> Iterator[Failed]:
    """Attempt the cases of the seeds from `first` on; `folder` keeps the files of those found."""
    at, end = first, first + count
    while at < end:
        for found in _child(campaign, at, end - at, folder):
            at = found.seed + 1
            yield found
            if found.why.startswith("signal"):
                break
        else:
            return


def _child(campaign: str, first: int, count: int, folder: Path) -> Iterator[Failed]:
    command = [sys.executable, "-m", "tests.fuzz", campaign, str(first), str(count), str(folder)]
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=env) as child:
        assert child.stdout is not None
        seed = first
        while line := _line(child):
            word, number, *rest = line.split(maxsplit=2)
            seed = int(number)
            if word == "failed":
                yield Failed(seed, folder / f"{campaign}-{seed}", json.loads(rest[0]))
        code = child.wait()
    if code:
        yield Failed(seed, folder / f"{campaign}-{seed}", f"signal or exit code {code}")


def _line(child: "subprocess.Popen[bytes]") -> str:
    """The next report; none if the child ended, or is ended because it hangs."""
    assert child.stdout is not None
    if not select.select([child.stdout], [], [], STILL)[0]:
        child.kill()
    return child.stdout.readline().decode()
