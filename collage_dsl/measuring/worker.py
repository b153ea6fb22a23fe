"""Run work that may crash or hang in another process, which is replaced after a crash."""

import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from types import ModuleType
from typing import Any, Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_PRELOAD = ["collage_dsl.measuring.task"]
"""The modules that are imported once, in the server from which new workers are forked."""

_SAFE_PATH = "PYTHONSAFEPATH"

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


class Worker(Generic[Task, Result]):
    """
    Runs `work`, a function of a module, on one task at a time in another process.

        with Worker(measure_kernel, timeout=60) as worker:
            result = worker.run(task)

    The result is `Failed` if there is an exception or a crash, or if the task takes longer than
    `timeout` seconds (of `run`, or else of the worker). After a crash or a time-out the next task
    gets a new process. The time to start a process does not count.
    """

    def __init__(self, work: Callable[[Task], Result], *, timeout: float) -> None:
        self.work = work
        self.timeout = timeout
        self._process: ForkServerProcess | None = None
        self._connection: Connection[Any, Any] | None = None

    def __enter__(self) -> "Worker[Task, Result]":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, task: Task, *, timeout: float | None = None) -> Result | Failed:
        limit = self.timeout if timeout is None else timeout
        connection = self._send(task)
        if connection is None:
            return Failed("no process for it could be started", passing=True)
        if not connection.poll(limit):
            self.stop()
            return Failed(f"took longer than {limit:g} s", timed_out=True)
        try:
            answer: Result | Failed = connection.recv()
        except (EOFError, ConnectionResetError):
            return self._ended()
        return answer

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def _send(self, task: Task) -> "Connection[Any, Any] | None":
        """
        Send the task. If the last process ended after its answer, send it to a new process. None
        if there is no process to send it to.
        """
        if self._connection is not None:
            try:
                self._connection.send(task)
            except OSError:
                self.stop()
            else:
                return self._connection
        connection = self._start()
        if not _is_ready(connection):
            self.stop()
            return None
        connection.send(task)
        return connection

    def _start(self) -> "Connection[Any, Any]":
        context = get_context("forkserver")
        context.set_forkserver_preload(_PRELOAD)
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.work), daemon=True)
        with _without_main(), _safe_path(), _without_interrupts():
            process.start()
            self._process = process
        theirs.close()
        self._connection = ours
        return ours

    def _ended(self) -> Failed:
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode or 0
        self.stop()
        if code >= 0:
            return Failed(f"ended with exit code {code}")
        if -code == signal.SIGKILL:
            who = "by a person, or by the system because memory ran out"
            return Failed(f"the process for it was killed {who}", passing=True)
        return Failed(f"crashed ({_signal_name(-code)})")


def _is_ready(connection: "Connection[Any, Any]") -> bool:
    """Wait until a new process has imported what it needs; False if it never does."""
    try:
        return connection.poll(_STARTING) and connection.recv() is None
    except (EOFError, ConnectionResetError):
        return False


def _signal_name(number: int) -> str:
    known = {signal_.value: signal_.name for signal_ in signal.Signals}
    return known.get(number, f"signal {number}")


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


def _serve(connection: "Connection[Any, Any]", work: Callable[[Any], Any]) -> None:
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
            answer = work(task)
        except Exception as error:
            answer = Failed(_one_line(error), passing=isinstance(error, OSError | MemoryError))
        connection.send(answer)


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
