"""A process for work that may crash or hang: how it starts, what it does, and how it ends."""

import errno
import fcntl
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from threading import Lock
from types import ModuleType
from typing import Any, TypeVar

from collage_dsl.cost import Refusal
from collage_dsl.measuring.memory import exhausted, says_no_memory, set_limit
from collage_dsl.measuring.signals import delayed_signals

Task = TypeVar("Task")
Result = TypeVar("Result")

_PRELOAD = ["collage_dsl.measuring.work"]
"""The modules that are imported once, in the server from which new workers are forked."""

_VARIABLES = {
    # No modules from the current folder: a model may lie beside a file `selectors.py`, and Python
    # looks there before it knows the paths of this process.
    "PYTHONSAFEPATH": "1",
    # Where PyTorch is installed, TVM imports it and asks it for a GPU. CUDA then fails in each
    # process that is forked.
    "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1",
}
"""Variables of the environment in which processes start."""

_ONE_AT_A_TIME = Lock()
"""Held while a process starts, which changes this process for a moment."""

_STARTING = 120.0
"""The seconds in which a process must be ready for its first task."""


_LATE = 1.0
"""The seconds after which it is known whether the server of processes was killed too."""


class WorkersWarning(UserWarning):
    """A process that measures kernels, or one that helps it, was killed, and there is a new one."""


class Refused(Exception):  # noqa: N818 (a reason, like `Infeasible`)
    """A task has no result, for a reason of a known kind."""

    kind = Refusal.UNSUPPORTED


@dataclass(frozen=True, slots=True)
class Failed:
    """
    A task that gave no result, the reason in one sentence, and its kind.

    If the cause is not the task but this machine now (no compiler, no disk space), it is `passing`;
    and the task may be done `again` at once if only its process was killed, or lacked memory.
    """

    reason: str
    kind: Refusal = Refusal.UNSUPPORTED
    passing: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """What a process says when what is left of its task must run alone."""


Work = Callable[[Task], Generator[None, None, Result]]
"""A function of a module, which does a task. After a `yield` it runs while no other task does."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A process that does tasks, our end of the connection to it, and what it prints as errors."""

    process: ForkServerProcess
    connection: "Connection[Any, Any]"
    errors: "Connection[Any, Any]"

    def is_ready(self) -> bool:
        """Wait until it has imported what it needs; False if it never does."""
        try:
            return self.connection.poll(_STARTING) and self.connection.recv() is None
        except (EOFError, ConnectionResetError):
            return False

    def printed(self) -> str:
        """What it has printed as errors since this was asked last, up to what a pipe holds."""
        with suppress(BlockingIOError):
            return os.read(self.errors.fileno(), 1 << 16).decode(errors="replace")
        return ""

    def exit_code(self) -> int | None:
        """
        How it ended, as `os.waitstatus_to_exitcode` says it. None if this is not known: the server
        that would have told was killed.
        """
        self.process.join()
        code = self.process.exitcode
        return None if code == _UNKNOWN and _server_ends() else code

    def kill(self) -> None:
        """End it, and every process of its group: compilers that it has started."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError):  # It ended, or has no group of its own yet.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.process.close()
        self.connection.close()
        self.errors.close()


_UNKNOWN = 255
"""The exit code that Python gives where the server of processes has not told it."""


def started(work: Work[Any, Any], memory: int) -> Serving:
    """A new process, which may have `memory` bytes of data."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    ours, theirs = context.Pipe()
    errors, printing = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(theirs, printing, work, memory), daemon=True)
    try:
        # One that has begun to start, and then hears no more of this process, prints a traceback.
        with _ONE_AT_A_TIME, _without_main(), _environment(), _without_interrupts():
            server = _server()
            with delayed_signals():
                process.start()
            is_replaced = server not in (None, _server())
    except BaseException:
        ours.close()
        errors.close()
        raise
    finally:
        theirs.close()
        printing.close()
    if is_replaced:
        _warn("the server that starts processes for kernels was killed; it was started again")
    os.set_blocking(errors.fileno(), False)
    return Serving(process, ours, errors)


def _server() -> int | None:
    """The process from which new ones are forked, once there is one."""
    found = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]  # no public name
    return found if isinstance(found, int) else None


def _is_server_alive() -> bool:
    server = _server()
    assert server is not None
    try:  # Its status is left for Python, which reads it before it starts a new one.
        return os.waitid(os.P_PID, server, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _server_ends() -> bool:
    """Whether the server is killed, which is known a moment after its pipes are closed."""
    end = time.monotonic() + _LATE
    while alive := _is_server_alive():
        if time.monotonic() > end:
            break
        time.sleep(0.01)
    return not alive


def _warn(text: str) -> None:
    warnings.warn(text, WorkersWarning, stacklevel=3)


def warn_of_kill() -> None:
    """Say that a process was killed, whose task is done again."""
    _warn("a process that measured a kernel was killed; the kernel is measured again in a new one")


@contextmanager
def _without_main() -> Iterator[None]:
    """
    Processes started in here do not import the main script. It may not be written for that: without
    `if __name__ == "__main__"` it would run again.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _environment() -> Iterator[None]:
    """Processes started in here have the variables of `_VARIABLES`."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(_VARIABLES)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started in here are not interrupted from the keyboard; this process ends them."""
    # The resource tracker, started with the first process, would unblock the signal again.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        resource_tracker.ensure_running()
    if said:  # in words that are not for users
        _warn("the tracker of resources was killed; it is started again")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(
    connection: "Connection[Any, Any]",
    printing: "Connection[Any, Any]",
    work: Work[Any, Any],
    memory: int,
) -> None:
    """
    Send None when ready, then answer tasks until the other side closes. Any exception is an answer
    here: this process exists so that a library may fail in any way.

    The process leads a session, and so a group, of its own. It ends with all that it has started.
    """
    os.setsid()
    _end_with_owner()
    _silence(printing)
    set_limit(memory)
    connection.send(None)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            answer = _done(connection, work(task))
        except Exception as error:
            answer = _failed(error, memory)
        connection.send(answer)


def _failed(error: Exception, memory: int) -> Failed:
    reason = _one_line(error)
    if isinstance(error, Refused):
        return Failed(reason, error.kind)
    is_memory = isinstance(error, MemoryError) or getattr(error, "errno", 0) == errno.ENOMEM
    if is_memory or says_no_memory(str(error)):
        return Failed(exhausted(memory), Refusal.MEMORY)
    return Failed(reason, passing=isinstance(error, OSError))


def _done(connection: "Connection[Any, Any]", steps: Generator[None, None, Any]) -> Any:
    """The result of a task, of which each step but the first waits until it may run alone."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        connection.send(Ready())
        connection.recv()


def _end_with_owner() -> None:
    """
    Let the system end the group of this process when the one that it works for has ended in any
    way.

    The sentinel is a pipe, of which that process holds the other end. When it closes, the system
    sends SIGIO to the group, which ends its processes even while a library runs.
    """
    owner = parent_process()
    assert owner is not None
    fcntl.fcntl(owner.sentinel, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(owner.sentinel, fcntl.F_GETFL)
    fcntl.fcntl(owner.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    if not owner.is_alive():  # It ended before.
        sys.exit()


def _silence(printing: "Connection[Any, Any]") -> None:
    """
    Discard what libraries print to the streams of the process, which are also ours. The errors go
    to `printing`, as long as there is room: after a crash they may say the reason.
    """
    os.set_blocking(printing.fileno(), False)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(printing.fileno(), 2)


def _one_line(error: Exception) -> str:
    """
    The first line of the message that is not empty, and the next one if it ends with a colon; or
    the name of the exception.
    """
    every = (line.strip() for line in str(error).splitlines())
    lines = [line for line in every if line and not line.startswith("Traceback")]
    said = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    return f"{said or type(error).__name__}"[:300]
