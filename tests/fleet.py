"""A tracker, devices and other processes for tests. All are on the loopback address."""

import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tvm.rpc import connect_tracker

KEY = "box"

TRACKER = """
import sys
from tvm.rpc.tracker import PopenTrackerServerState
port = int(sys.argv[1])
PopenTrackerServerState("127.0.0.1", port, port + 1, silent=True).thread.join()
"""
SERVER_OF_TVM = """
import sys
from tvm.rpc.server import PopenRPCServerState
port, tracker, key = int(sys.argv[1]), ("127.0.0.1", int(sys.argv[2])), sys.argv[3]
PopenRPCServerState("127.0.0.1", port, port + 1, tracker_addr=tracker, key=key).thread.join()
"""
_SERVER = "import sys; from collage_dsl.cli.main import main; sys.argv[0] = 'collage'; main()"
_DIES_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG`."""


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def started(code: str, *arguments: object) -> "subprocess.Popen[bytes]":
    """A process that runs Python code, and ends with this one in any way."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, preexec_fn=_die_with_parent)


@dataclass
class LocalFleet:
    """A tracker and its devices: the processes, the latter by their ports."""

    port: int
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    devices: "dict[int, subprocess.Popen[bytes]]" = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, code: str, *arguments: object) -> "subprocess.Popen[bytes]":
        self.processes.append(started(code, *arguments))
        return self.processes[-1]

    def serve(self, count: int = 1, before: str = "") -> None:
        """Start devices, after they have run the code `before`, and wait until they are offered."""
        ports = [free_port() for _ in range(count)]
        for port in ports:
            options = ("--tracker", self.address, "--key", KEY, "--port", port)
            self.devices[port] = self.start(before + _SERVER, "serve", *options)
        until(lambda: set(ports) <= set(self.ports()))

    def ports(self) -> list[int]:
        """The ports of the devices at the tracker."""
        return [each["addr"][1] for each in self._summary()["server_info"]]

    def free(self) -> int:
        """The number of devices that the tracker has and that nobody uses."""
        return int(self._summary()["queue_info"].get(KEY, {"free": 0})["free"])

    def _summary(self) -> dict[str, Any]:
        tracker = connect_tracker("127.0.0.1", self.port)
        try:
            summary: dict[str, Any] = tracker.summary()
            return summary
        finally:
            tracker.close()

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@contextmanager
def local_fleet(count: int) -> Iterator[LocalFleet]:
    """A tracker with so many devices; their processes end with the block."""
    made = LocalFleet(free_port())
    try:
        made.start(TRACKER, made.port)
        until(lambda: is_open(made.port))
        made.serve(count)
        yield made
    finally:
        made.stop()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the caller's runner ends a test that waits for ever."""
    while not holds():
        time.sleep(0.05)
