"""Run work that may crash or hang in other processes, which are replaced after a crash."""

import signal
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any, Generic

from collage_dsl.cost import Refusal
from collage_dsl.measuring.memory import default_limit, exhausted, says_no_memory
from collage_dsl.measuring.process import (
    Failed,
    Ready,
    Result,
    Serving,
    Task,
    Work,
    started,
    warn_of_kill,
)

Job = Generator[tuple[Task, float], Result | Failed, None]
"""Tasks for one process, each with its time limit in seconds. It is sent the result of each."""

_AGAIN = 2
"""How often a task is done again in a new process, and a process started that ends."""

_PATIENCE = 60.0
"""The seconds after which no other process is started in place of one that did not begin."""


class Workers(Generic[Task, Result]):
    """
    Runs `work` on tasks in `count` other processes, one task at a time in each.

        with Workers(measure_kernel, count=2) as workers:
            workers.run(jobs)

    The result of a task is `Failed` if there is an exception or a crash, or if the task takes
    longer than its limit, or more than `memory` bytes (half of the machine's, if nothing is
    said). After that the next task gets a new process. The time to start a process does not count,
    nor does that to wait for other tasks.

    A task whose process is killed from outside is done again in a new one, twice at the most. A
    `WorkersWarning` says so. So is a task that gets no memory in a process that has done others,
    which may have kept some.
    """

    def __init__(
        self, work: Work[Task, Result], *, count: int = 1, memory: int | None = None
    ) -> None:
        limit = default_limit() if memory is None else memory
        self._workers = [_Worker(work, limit) for _ in range(count)]

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
        self._kills = 0

    @property
    def connection(self) -> "Connection[Any, Any]":
        assert self._worker.serving is not None
        return self._worker.serving.connection

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
        if isinstance(answer, Ready):
            self.is_ready = True
        elif isinstance(answer, Failed) and answer.again and self._kills < _AGAIN:
            self._kills += 1  # The task stays the next one.
            if answer.passing:
                warn_of_kill()
        else:
            self._end(answer)

    def _end(self, answer: Result | Failed) -> None:
        assert self._job is not None
        self._kills = 0
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
    """A process that does tasks within `memory` bytes, started when it is needed."""

    def __init__(self, work: Work[Task, Result], memory: int) -> None:
        self.work = work
        self.memory = memory
        self.serving: Serving | None = None
        self._is_new = True
        """Whether the process has done no task yet."""

    def send(self, task: Task) -> bool:
        """
        Send the task. If the last process ended after its answer, send it to a new process. False
        if there is no process to send it to.
        """
        if self.serving is not None:
            try:
                self.serving.connection.send(task)
            except OSError:
                self.stop()
            else:
                return True
        first = time.monotonic()
        for left in reversed(range(_AGAIN + 1)):
            try:
                self.serving, self._is_new = started(self.work, self.memory), True
                if self.serving.is_ready():
                    self.serving.connection.send(task)
                    return True
            except (ConnectionError, EOFError):
                if not left:  # The server of processes has just been killed, again and again.
                    raise
                time.sleep(0.1)
            self.stop()
            if time.monotonic() > first + _PATIENCE:
                break
        return False

    def go_on(self) -> None:
        """Let the process go on that is ready. If it has ended, its answer says so."""
        assert self.serving is not None
        with suppress(OSError):
            self.serving.connection.send(None)

    def answer(self, limit: float) -> Result | Failed | Ready:
        """What the process has answered, which is ended if it has not, or got no more memory."""
        assert self.serving is not None
        if not self.serving.connection.poll():
            self.stop()
            return Failed(f"took longer than {limit:g} s", Refusal.TIME)
        try:
            answer: Result | Failed | Ready = self.serving.connection.recv()
        except (EOFError, ConnectionResetError):
            return self._ended()
        self.serving.printed()  # Makes room for what follows.
        if isinstance(answer, Failed) and answer.kind is Refusal.MEMORY:
            self.stop()
            return replace(answer, again=not self._is_new)
        self._is_new = self._is_new and isinstance(answer, Ready)
        return answer

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self.serving is not None:
            self.serving.kill()
        self.serving = None

    def _ended(self) -> Failed:
        assert self.serving is not None
        code, printed = self.serving.exit_code(), self.serving.printed()
        self.stop()
        if code in (None, -signal.SIGKILL):
            who = "by a person, or by the system because memory ran out"
            return Failed(f"the process for it was killed {who}", passing=True, again=True)
        if says_no_memory(printed):
            return Failed(exhausted(self.memory), Refusal.MEMORY, again=not self._is_new)
        if code >= 0:
            return Failed(f"ended with exit code {code}", Refusal.CRASH)
        return Failed(f"crashed ({_signal_name(-code)})", Refusal.CRASH)


def _signal_name(number: int) -> str:
    known = {signal_.value: signal_.name for signal_ in signal.Signals}
    name = known.get(number, f"signal {number}")
    if number == signal.SIGILL:
        return f"{name}: an instruction that this processor does not have"
    return name
