"""Run a compiler, which ends with this process however this process ends."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

_GUARD = Path(__file__).with_name("guard.py")


def run_guarded(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """
    The result of a command. The command, and all that it started, is killed if this process ends
    before it, or if an exception such as `KeyboardInterrupt` ends the wait for it.
    """
    theirs, ours = os.pipe()
    with (
        open(theirs, "rb") as end,
        open(ours, "wb") as held,
        subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), *command],
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        ) as process,
        closing(held),  # before the wait for the process
    ):
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)
