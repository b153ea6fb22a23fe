"""
A program that runs a command, and kills it, with all that it started, when standard input ends.

    python guard.py g++ -c a.cc

It is the leader of a process group. The process that wants the result holds the other end of
standard input, which the system closes if that process is killed.
"""

import os
import select
import signal
import sys


def main() -> int:
    """Run the command in the arguments; its exit code."""
    name, *_ = command = sys.argv[1:]
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    process = os.posix_spawnp(name, command, os.environ, file_actions=[nothing])
    finished = os.pidfd_open(process)
    ready, _, _ = select.select([0, finished], [], [])
    if finished not in ready:
        os.killpg(0, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return abs(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sys.exit(main())
