"""Time kernels on the devices that a tracker of TVM lends."""

import json
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from tvm import rpc
from tvm.rpc import base
from tvm.rpc.base import TrackerCode

from collage_dsl.measuring.artifact import Artifact
from collage_dsl.measuring.executors import Lost, Memory, NoDevice, in_thread
from collage_dsl.measuring.machine import Machine, this_machine
from collage_dsl.measuring.task import Answer
from collage_dsl.measuring.wire import NotRead, value_of

MACHINE = "collage.machine"
MEASURE = "collage.measure"
"""The functions that `collage serve` adds to those of an RPC server of TVM."""

_MOST = 24
"""The most devices that are used at once. TVM keeps at most 32 sessions in one process."""

_PERIOD = 1.0
"""The seconds between two questions to the tracker, of a kernel that waits for a device."""

_ANSWER = 30.0
"""The seconds in which a tracker must answer."""

_GRACE = 60.0
"""The seconds that a device has besides the time limit of a kernel: to start, and to build what it
compares the kernel with."""

_SLOWEST = 1e6
"""The bytes a second that arrive at a device at the least."""


class RemoteError(Exception):
    """Kernels cannot be measured on other machines as these are now."""


def address_of(text: str) -> tuple[str, int]:
    """The host and the port in `HOST:PORT`. Raises `RemoteError`."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise RemoteError(f"`{text}` is no address: write HOST:PORT, such as 127.0.0.1:9190")
    return host.strip("[]"), int(port)


class Tracker:
    """
    The devices with the `key` at the tracker `HOST:PORT`, which `collage serve` offers there.

    All of them must be equal, have the version of TVM that this machine has, and its architecture:
    raises `RemoteError` else, or where there is no device. A kernel waits for a device that others
    use for any time; where no device has the key any more, all have gone silent, or the tracker
    does not answer, for `patience` seconds.
    """

    def __init__(self, address: str, key: str, *, patience: float = 30) -> None:
        self.address = address
        self.key = key
        self.patience = patience
        self._at = address_of(address)
        self.silent: set[str] = set()
        """Devices that did not answer. The tracker does not notice that and still names them."""
        try:
            self._count = len(self._devices())
        except OSError as error:
            raise RemoteError(f"the tracker {self.address} does not answer: {error}") from error
        if not self._count:
            raise RemoteError(
                f"no device with the key `{key}` is at the tracker {address}; start one with: "
                f"collage serve --tracker {address} --key {key}"
            )
        self.machine = self._described()

    def count(self) -> int:
        with suppress(OSError):  # A kernel that asks for a device waits for the tracker.
            self._count = len(self._devices())
        return min(_MOST, self._count)

    @contextmanager
    def lent(self) -> "Iterator[RemoteDevice]":
        try:
            host, port, match = self._lease()
        except OSError as error:
            raise NoDevice(f"no device with the key `{self.key}`: {_first_line(error)}") from error
        try:
            session = in_thread(rpc.connect, host, port, match).result(_ANSWER)
        except TimeoutError:
            raise self.gone_silent(f"{host}:{port}", _ANSWER) from None
        except (OSError, RuntimeError) as error:
            raise Lost(f"{host}:{port} was lost: {_first_line(error)}") from error
        device = RemoteDevice(f"{host}:{port}", session, self)
        del session  # The device has the only reference: the session ends with it.
        try:
            yield device
        finally:
            device.session = None

    def gone_silent(self, device: str, seconds: float) -> Lost:
        """The error for a device that did not answer for so long."""
        self.silent.add(device)
        return Lost(f"{device} gave no answer for {seconds:.0f} s")

    def stop(self) -> None:
        return

    def _described(self) -> Machine:
        """The machine of the first device that is free."""
        try:
            with self.lent() as device:
                machine = device.machine()
        except Lost as error:
            raise RemoteError(str(error)) from error
        here = this_machine()
        for name in ("architecture", "tvm", "collage", "method"):
            ours, theirs = getattr(here, name), getattr(machine, name)
            if ours != theirs:
                raise RemoteError(
                    f"devices with the key `{self.key}` cannot run what is built here: "
                    f"{name} is {theirs} there and {ours} here"
                )
        return machine

    def _lease(self) -> tuple[str, int, str]:
        """
        The address of a device, and the word with which it lets us in. Raises OSError if for too
        long the tracker does not answer, or knows no device.
        """
        seen = monotonic()
        while True:
            try:
                with self._connected() as connection:
                    base.sendjson(connection, [TrackerCode.REQUEST, self.key, "", 1])
                    while not select.select([connection], [], [], _PERIOD)[0]:
                        if self._answering():
                            seen = monotonic()
                        elif monotonic() - seen > self.patience:
                            raise OSError(f"none was left for {self.patience:g} s")
                    _, (host, port, match) = base.recvjson(connection)
                    self.silent.discard(f"{host}:{port}")  # It has offered itself again.
                    return str(host), int(port), str(match)
            except OSError:
                if monotonic() - seen > self.patience:
                    raise
                sleep(_PERIOD)

    def _devices(self) -> list[Any]:
        """What the tracker says of each device with the key. Raises OSError."""
        with self._connected() as connection:
            base.sendjson(connection, [TrackerCode.SUMMARY])
            code, summary = base.recvjson(connection)
        if code != TrackerCode.SUCCESS:
            raise OSError("it gives no summary")
        return [each for each in summary["server_info"] if each["key"] == f"server:{self.key}"]

    def _answering(self) -> list[Any]:
        """The devices without those that did not answer. Raises OSError."""
        found = ((each, ":".join(map(str, each["addr"]))) for each in self._devices())
        return [each for each, address in found if address not in self.silent]

    def _connected(self) -> "closing[socket.socket]":
        return closing(connected(self._at))


def connected(tracker: tuple[str, int]) -> socket.socket:
    """A connection to a tracker. Raises OSError."""
    connection = socket.create_connection(tracker, _ANSWER)
    try:
        connection.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
        (magic,) = struct.unpack("<i", base.recvall(connection, 4))
        if magic != base.RPC_TRACKER_MAGIC:
            raise OSError("it is no tracker of TVM")
    except BaseException:
        connection.close()
        raise
    return connection


@dataclass(slots=True)
class RemoteDevice:
    """A device, which is lent as long as it has its session."""

    address: str
    session: Any
    tracker: Tracker

    def machine(self) -> Machine:
        try:
            return Machine.from_json(self._ask(MACHINE, _GRACE))
        except ValueError as error:
            raise RemoteError(f"{self.address} is of another version: {error}") from error

    def measure(self, artifact: Artifact, limit: float, memory: Memory) -> Answer:
        expected = self.tracker.machine
        request = {
            "machine": expected.to_json(),
            "limit": limit,
            "memory": memory,
            "task": artifact.task,
            "sizes": list(map(len, artifact.libraries)),
        }
        patience = limit + _GRACE + artifact.size / _SLOWEST
        libraries = b"".join(artifact.libraries)
        text = self._ask(MEASURE, patience, json.dumps(request), libraries)
        try:
            answer = json.loads(text)
            if "machine" in answer:
                other = Machine.from_json(answer["machine"])
                raise RemoteError(
                    f"the devices with the key `{self.tracker.key}` differ: "
                    f"{expected.difference(other)} ({self.address})"
                )
            found: Answer = value_of(answer["answer"])
        except (NotRead, ValueError, KeyError) as error:
            raise RemoteError(f"{self.address} is of another version: {error}") from error
        return found

    def _ask(self, name: str, patience: float, *arguments: object) -> str:
        """What a function of the device returns. Raises `Lost`."""
        asked = in_thread(_called, self.session, name, *arguments)
        try:
            return str(asked.result(patience))
        except TimeoutError:
            raise self.tracker.gone_silent(self.address, patience) from None
        except AttributeError:
            raise RemoteError(
                f"{self.address} is an RPC server that cannot time kernels; start it with: "
                f"collage serve --tracker {self.tracker.address} --key {self.tracker.key}"
            ) from None
        except RuntimeError as error:
            raise Lost(f"{self.address} was lost: {_first_line(error)}") from None


def _called(session: Any, name: str, *arguments: object) -> Any:
    return session.get_function(name)(*arguments)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1][:300]
