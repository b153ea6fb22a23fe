"""Run work that may crash or hang in other processes, which are replaced after a crash."""

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
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


@dataclass(frozen=True, slots=True)
class _Ready:
    """What a process says when what is left of its task must run alone."""


Work = Callable[[Task], Generator[None, None, Result]]
"""A function of a module, which does a task. After a `yield` it runs while no other task does."""

Job = Generator[tuple[Task, float], Result | Failed, None]
"""Tasks for one process, each with its time limit in seconds. It is sent the result of each."""


class Workers(Generic[Task, Result]):
    """
    Runs `work` on tasks in `count` other processes, one task at a time in each.

        with Workers(measure_kernel, count=2) as workers:
            workers.run(jobs)

    The result of a task is `Failed` if there is an exception or a crash, or if the task takes
    longer than its limit. After a crash or a time-out the next task gets a new process. The time
    to start a process does not count, nor does that to wait for other tasks.
    """

    def __init__(self, work: Work[Task, Result], *, count: int = 1) -> None:
        self._workers = [_Worker(work) for _ in range(count)]

    def __enter__(self) -> "Workers[Task, Result]":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, jobs: Iterable[Job[Task, Result]]) -> None:
        """
        Run the tasks of `jobs`. The processes work side by side up to the `yield` of their tasks.
        When all have come so far, they end their tasks one after the other, and get the next ones.
        """
        left = iter(jobs)
        places = [_Place(worker, left) for worker in self._workers]
        try:
            while busy := [place for place in places if place.begin()]:
                _work_side_by_side(busy)
                for place in busy:
                    place.end()
        except BaseException:
            self.stop()  # What is left of their tasks must not answer the next ones.
            raise

    def stop(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self._workers:
            worker.stop()


class _Place(Generic[Task, Result]):
    """One process, and the job that it is at. The task of the job has `left` seconds."""

    def __init__(self, worker: "_Worker[Task, Result]", jobs: Iterator[Job[Task, Result]]) -> None:
        self.is_working = self.is_ready = False
        self._worker = worker
        self._jobs = jobs
        self._job: Job[Task, Result] | None = None
        self._next: tuple[Task, float] | None = None
        self._limit = self._used = self._since = 0.0

    @property
    def connection(self) -> "Connection[Any, Any]":
        assert self._worker.connection is not None
        return self._worker.connection

    @property
    def left(self) -> float:
        return self._limit - self._used - (time.monotonic() - self._since)

    def begin(self) -> bool:
        """Begin with the next task, of this job or else of the next; False if there is none."""
        while self._next is None:
            self._job = next(self._jobs, None)
            if self._job is None:
                return False
            self._next = next(self._job, None)
        task, self._limit = self._next
        self._used = 0.0
        if self._worker.send(task):
            self.is_working, self._since = True, time.monotonic()
            return True
        self._end(Failed("no process for it could be started", passing=True))
        return self.begin()

    def end(self) -> None:
        """Do what must run alone."""
        while self.is_ready:
            self._worker.go_on()
            self._since = time.monotonic()
            self.connection.poll(max(0.0, self.left))
            self.hear()

    def hear(self) -> None:
        """Take the answer of the process; without one, its time is over."""
        self._used += time.monotonic() - self._since
        self.is_working = self.is_ready = False
        answer = self._worker.answer(self._limit)
        if isinstance(answer, _Ready):
            self.is_ready = True
        else:
            self._end(answer)

    def _end(self, answer: Result | Failed) -> None:
        assert self._job is not None
        try:
            self._next = self._job.send(answer)
        except StopIteration:
            self._next = None


def _work_side_by_side(places: Sequence[_Place[Any, Any]]) -> None:
    """Wait until each process has answered, or its time is over."""
    while working := [place for place in places if place.is_working]:
        limit = max(0.0, min(place.left for place in working))
        answered = wait([place.connection for place in working], limit)
        for place in working:
            if place.connection in answered or place.left <= 0:
                place.hear()


class _Worker(Generic[Task, Result]):
    """A process that does tasks, started when it is needed."""

    def __init__(self, work: Work[Task, Result]) -> None:
        self.work = work
        self.connection: Connection[Any, Any] | None = None
        self._process: ForkServerProcess | None = None

    def send(self, task: Task) -> bool:
        """
        Send the task. If the last process ended after its answer, send it to a new process. False
        if there is no process to send it to.
        """
        if self.connection is not None:
            try:
                self.connection.send(task)
            except OSError:
                self.stop()
            else:
                return True
        self._process, self.connection = _started(self.work)
        if not _is_ready(self.connection):
            self.stop()
            return False
        self.connection.send(task)
        return True

    def go_on(self) -> None:
        """Let the process go on that is ready. If it has ended, its answer says so."""
        assert self.connection is not None
        with suppress(OSError):
            self.connection.send(None)

    def answer(self, limit: float) -> Result | Failed | _Ready:
        """What the process has answered, which is ended if it has not."""
        assert self.connection is not None
        if not self.connection.poll():
            self.stop()
            return Failed(f"took longer than {limit:g} s", timed_out=True)
        try:
            answer: Result | Failed | _Ready = self.connection.recv()
        except (EOFError, ConnectionResetError):
            return self._ended()
        return answer

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self.connection is not None:
            self.connection.close()
        self._process = self.connection = None

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


def _started(work: Work[Any, Any]) -> "tuple[ForkServerProcess, Connection[Any, Any]]":
    """A new process, and our end of the connection to it."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    with _without_main(), _safe_path(), _without_interrupts():
        process.start()
    theirs.close()
    return process, ours


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
        connection.send(_Ready())
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
