"""
Attempt the cases of many seeds in one process, and report on standard output.

    python -m tests.fuzz FOLDER CAMPAIGN:FIRST:END...

A line `begin CAMPAIGN SEED` comes before each case, and `failed CAMPAIGN SEED` with the traceback
in JSON after one that fails. A case that takes too much CPU time ends the process.
"""

import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from shutil import rmtree

from tests.fuzz.attempts import ATTEMPTS

SECONDS = 10
GIB = 1 << 30
MAPPED = 6 * GIB
"""The most address space. The libraries map far more than they use."""


def main(folder: Path, *campaigns: str) -> None:
    reports = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MAPPED, MAPPED))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for each in campaigns:
        campaign, first, end = each.split(":")
        for seed in range(int(first), int(end)):
            place = folder / f"{campaign}-{seed}"
            rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            reports.write(f"begin {campaign} {seed}\n")
            problem = attempt(campaign, seed, place)
            if problem:
                reports.write(f"failed {campaign} {seed} {json.dumps(problem)}\n")
            else:
                rmtree(place)


def attempt(campaign: str, seed: int, place: Path) -> str:
    """Why the case fails; empty if it does not."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the memory so far
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        ATTEMPTS[campaign](seed, place)
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    megabytes = peak_megabytes()
    return "" if megabytes < GIB >> 20 else f"it took {megabytes} MB of memory"


def peak_megabytes() -> int:
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
