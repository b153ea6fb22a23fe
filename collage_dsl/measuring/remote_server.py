"""Offer this machine to a tracker of TVM, to time kernels that were built elsewhere."""

import json
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import tvm_ffi
from tvm.rpc import _ffi_api, base
from tvm.rpc.base import TrackerCode

from collage_dsl.measuring.artifact import Artifact, measure_artifact
from collage_dsl.measuring.executors import Process
from collage_dsl.measuring.machine import Machine, this_machine
from collage_dsl.measuring.remote import MACHINE, MEASURE, connected
from collage_dsl.measuring.wire import text_of

_PERIOD = 2.0
"""The seconds after which the tracker is asked whether this device is still offered."""

_UNUSED = 3
"""If this device is lent and no client comes for so many periods, it is offered again."""

_SILENCE = 120
"""The seconds without a request after which a session ends."""

_HANDSHAKE = 10.0
"""The seconds in which a client must say who it is."""

_AGAIN = 1.0
"""The seconds between two attempts to reach the tracker."""

_KERNELS = 200
"""
The process that times kernels is replaced after so many of them: their libraries stay in memory.
"""


@dataclass(slots=True)
class Lane:
    """What times kernels here, one at a time, in a process that may crash or hang."""

    machine: Machine = field(default_factory=this_machine)
    timed: int = 0
    process: Process = field(default_factory=lambda: Process(measure_artifact))

    def measure(self, request: str, libraries: bytes) -> str:
        """The answer to a request, both as JSON. The `libraries` follow each other."""
        asked = json.loads(request)
        expected = Machine.from_json(asked["machine"])
        if expected != self.machine:
            return json.dumps({"machine": self.machine.to_json()})
        self.timed += len(asked["sizes"])
        if self.timed > _KERNELS:
            self.process.stop()
            self.timed = 0
        ends = list(accumulate(asked["sizes"], initial=0))
        artifact = Artifact(asked["task"], tuple(libraries[a:b] for a, b in pairwise(ends)))
        answer = self.process.answer(artifact, float(asked["limit"]), asked["memory"])
        return json.dumps({"answer": text_of(answer)})


@dataclass(frozen=True, slots=True)
class Offer:
    """
    Where to offer this machine: under a `key` at a `tracker`. Clients reach it at `address`, which
    the tracker learns by itself where it is empty, on the port of `listener`.
    """

    tracker: tuple[str, int]
    key: str
    listener: socket.socket
    address: str = ""

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])


def serve(offer: Offer, tell: Callable[[str], None]) -> None:
    """
    Offer this machine, and time kernels for one client after another, until this process ends.
    Where the tracker is gone, it is offered again as soon as there is one. `tell` hears of clients.

    Clients use all of TVM's RPC, with which they can run any code here.
    """
    lane = Lane()
    tvm_ffi.register_global_func(MACHINE, lambda: lane.machine.to_json(), override=True)
    tvm_ffi.register_global_func(
        MEASURE,
        lambda request, code: lane.measure(str(request), bytes(code)),
        override=True,
    )
    is_reached = True
    while True:
        try:
            with closing(connected(offer.tracker)) as tracker:
                is_reached = True
                _introduce(offer, tracker)
                tell(f"offered as `{offer.key}` at {':'.join(map(str, offer.tracker))}")
                while True:
                    _serve_session(*_next_client(offer, tracker), tell)
        except OSError as error:
            if is_reached:
                tell(f"the tracker does not answer: {error}; trying again")
            is_reached = False
            time.sleep(_AGAIN)


def _introduce(offer: Offer, tracker: socket.socket) -> None:
    described = {"key": f"server:{offer.key}", "addr": (offer.address or None, offer.port)}
    base.sendjson(tracker, [TrackerCode.UPDATE_INFO, described])
    _check(base.recvjson(tracker))


def _put(offer: Offer, tracker: socket.socket) -> str:
    """Offer this machine for one session. The result is what its client has to say."""
    match = f"{offer.key}:{secrets.token_hex(16)}"
    base.sendjson(tracker, [TrackerCode.PUT, offer.key, (offer.port, match), offer.address or None])
    _check(base.recvjson(tracker))
    return match


def _check(answer: object) -> None:
    if answer != TrackerCode.SUCCESS:
        raise OSError(f"the tracker refuses this device: {answer}")


def _next_client(offer: Offer, tracker: socket.socket) -> tuple[socket.socket, str]:
    """
    A connection to the client that the tracker has lent this machine to, and the client's address.
    Others are refused.
    """
    match, unused = _put(offer, tracker), 0
    while True:
        if not select.select([offer.listener], [], [], _PERIOD)[0]:
            base.sendjson(tracker, [TrackerCode.GET_PENDING_MATCHKEYS])
            is_free = match in base.recvjson(tracker)
            unused = 0 if is_free else unused + 1
            if unused > _UNUSED:
                match, unused = _put(offer, tracker), 0
            continue
        connection, (client, *_) = offer.listener.accept()
        if _is_welcome(connection, offer.key, match):
            return connection, client
        connection.close()


def _is_welcome(connection: socket.socket, key: str, match: str) -> bool:
    """Whether a client says what it must, as TVM's protocol has it."""
    connection.settimeout(_HANDSHAKE)
    try:
        magic, size = struct.unpack("<ii", base.recvall(connection, 8))
        if magic != base.RPC_MAGIC or not 0 < size < 1 << 12:
            return False
        said = base.recvall(connection, size).decode("utf-8", "replace").split()
        if said[:1] != [f"client:{match}"]:
            connection.sendall(struct.pack("<i", base.RPC_CODE_MISMATCH))
            return False
        ours = f"server:{key}".encode()
        connection.sendall(struct.pack("<ii", base.RPC_CODE_SUCCESS, len(ours)) + ours)
    except OSError:
        return False
    return True


def _serve_session(connection: socket.socket, client: str, tell: Callable[[str], None]) -> None:
    """Answer one client until it is done, gone, or silent for too long."""
    connection.settimeout(None)
    silence = struct.pack("ll", _SILENCE, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, silence)
    try:
        _ffi_api.ServerLoop(connection.detach())
    except RuntimeError as error:
        tell(f"lost {client}: {str(error).strip().splitlines()[-1]}")
