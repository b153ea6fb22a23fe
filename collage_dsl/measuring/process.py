"""A process for work that may crash or hang: how it starts, what it does, and how it ends."""

import fcntl
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from threading import Lock
from types import ModuleType
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_PRELOAD = ["collage_dsl.measuring.task"]
"""The modules that are imported once, in the server from which new workers are forked."""

_SAFE_PATH = "PYTHONSAFEPATH"

_ONE_AT_A_TIME = Lock()
"""Held while a process starts, which changes this process for a moment."""

_STARTING = 120.0
"""The seconds in which a process must be ready for its first task."""


@dataclass(frozen=True, slots=True)
class Failed:
    """
    A task that gave no result, and the reason in one sentence.

    It may give a result another time if it was too slow (`timed_out`), or if the cause is not the
    task but this machine now: no compiler, no memory, no disk space (`passing`).
    """

    reason: str
    timed_out: bool = False
    passing: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """What a process says when what is left of its task must run alone."""


Work = Callable[[Task], Generator[None, None, Result]]
"""A function of a module, which does a task. After a `yield` it runs while no other task does."""


def started(work: Work[Any, Any]) -> "tuple[ForkServerProcess, Connection[Any, Any]]":
    """A new process, and our end of the connection to it."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    with _ONE_AT_A_TIME, _without_main(), _safe_path(), _without_interrupts():
        process.start()
    theirs.close()
    return process, ours


def is_ready(connection: "Connection[Any, Any]") -> bool:
    """Wait until a new process has imported what it needs; False if it never does."""
    try:
        return connection.poll(_STARTING) and connection.recv() is None
    except (EOFError, ConnectionResetError):
        return False


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
def _safe_path() -> Iterator[None]:
    """
    Processes started in here do not look into the current folder for modules. Python would, before
    it knows the paths of this process: a model may lie beside a file `selectors.py`.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[_SAFE_PATH]
        if before is not None:
            os.environ[_SAFE_PATH] = before


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started in here are not interrupted from the keyboard; this process ends them."""
    # The resource tracker, started with the first process, would unblock the signal again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: "Connection[Any, Any]", work: Work[Any, Any]) -> None:
    """
    Send None when ready, then answer tasks until the other side closes. Any exception is an answer
    here: this process exists so that a library may fail in any way.
    """
    _end_with_owner()
    _silence()
    connection.send(None)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            answer = _done(connection, work(task))
        except Exception as error:
            answer = Failed(_one_line(error), passing=isinstance(error, OSError | MemoryError))
        connection.send(answer)


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
    Let the system end this process when the one that it works for has ended in any way.

    The sentinel is a pipe, of which that process holds the other end. When it closes, the system
    sends SIGIO, which ends this process even while a library runs.
    """
    owner = parent_process()
    assert owner is not None
    fcntl.fcntl(owner.sentinel, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(owner.sentinel, fcntl.F_GETFL)
    fcntl.fcntl(owner.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    if not owner.is_alive():  # It ended before.
        sys.exit()


def _silence() -> None:
    """Discard what libraries print to the streams of the process, which are also ours."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _one_line(error: Exception) -> str:
    """The first line of the message that is not empty, or the name of the exception."""
    lines = (line.strip() for line in str(error).splitlines())
    said = next((line for line in lines if line and not line.startswith("Traceback")), "")
    return f"{said or type(error).__name__}"[:300]
