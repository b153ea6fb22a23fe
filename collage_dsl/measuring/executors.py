"""Build kernels with any executor, and time each on one of several devices."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from multiprocessing import current_process
from threading import Event, Lock, Semaphore, Thread
from time import monotonic
from typing import Any, Protocol

from collage_dsl.measuring.artifact import Artifact, build_artifact, measure_artifact
from collage_dsl.measuring.machine import Machine, this_machine
from collage_dsl.measuring.process import Failed, Result, Work
from collage_dsl.measuring.task import Answer, InTurnTask, KernelTask, OverheadTask, Task
from collage_dsl.measuring.wire import NotSent, text_of
from collage_dsl.measuring.worker import Job, Workers

Memory = int | None
"""The bytes that a kernel may take; None for the usual limit of the machine where it is."""

TRIES = 3
"""How many devices a kernel may lose. After that the run ends."""


class Lost(Exception):  # noqa: N818 (a reason, like `Infeasible`)
    """A device that was lent does not answer any more."""


class NoDevice(Lost):
    """There is no device any more, or nobody answers who knows one."""


_ENDED = Failed("the run of which it is a part has ended", passing=True)
"""The answer to a task of which nobody wants to hear any more."""


class Device(Protocol):
    """What does one task at a time."""

    def measure(self, artifact: Artifact, limit: float, memory: Memory) -> Answer:
        """The answer, within `limit` seconds and `memory`. Raises `Lost`."""


class Devices(Protocol):
    """Equal devices: the cost of a kernel is the same on each."""

    @property
    def machine(self) -> Machine:
        """The machine that each of the devices is."""

    def count(self) -> int:
        """How many there are now, used or not."""

    def lent(self) -> AbstractContextManager[Device]:
        """A device that nobody else uses, as soon as there is one. Raises `Lost`, `NoDevice`."""

    def stop(self) -> None:
        """End the processes for them here; they start again when they are needed."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """An answer; the seconds for which the kernel waited for a device; and the devices it lost."""

    answer: Answer
    queued: float = 0.0
    lost: int = 0


class Fleet:
    """
    Runs the jobs of `Workers` in two parts: kernels are built, `builders` at once, by `executor`
    (by default in processes here), and each is timed on one of some `devices` as soon as one is
    free.

        Fleet(Tracker("127.0.0.1:9190", "xeon"))

    Kernels that are timed in turn are built one after the other, and one device times all of them.

    The time limit of a task holds for each part, and so does that of its memory. The time to wait
    for an executor or a device does not count; `queued` is the sum of the latter. A kernel whose
    device is lost is timed on another, at most `TRIES` times in all; `lost` counts these devices.
    """

    def __init__(
        self, devices: Devices, executor: Executor | None = None, *, builders: int = 2
    ) -> None:
        self.devices = devices
        self.executor = executor
        self.queued = 0.0
        self.lost = 0
        self.builders = builders
        self._builders = Semaphore(builders)

    @property
    def machine(self) -> Machine:
        return self.devices.machine

    def run(self, jobs: Iterable[Job[Any, Any]], memory: Memory = None) -> None:
        """Run the tasks of `jobs`, one for each device and each builder at once."""
        count = max(1, self.devices.count())
        lanes, left, ended = Semaphore(count), iter(jobs), Event()
        doing: dict[Future[_Measured], Job[Any, Any]] = {}

        def go_on(job: Job[Any, Any], answer: Answer | None) -> None:
            try:
                task, limit = next(job) if answer is None else job.send(answer)
            except StopIteration:
                return
            doing[in_thread(self._measured, task, limit, memory, lanes, ended)] = job

        try:
            while True:
                while len(doing) < count + self.builders and (job := next(left, None)):
                    go_on(job, None)
                if not doing:
                    return
                for future in wait(doing, return_when=FIRST_COMPLETED).done:
                    measured = future.result()
                    self.queued += measured.queued
                    self.lost += measured.lost
                    go_on(doing.pop(future), measured.answer)
        except BaseException:
            ended.set()
            self.stop()
            raise

    def stop(self) -> None:
        """End the processes here, whatever they are doing."""
        stop_builders()
        self.devices.stop()

    def _measured(
        self, task: Task, limit: float, memory: Memory, lanes: Semaphore, ended: Event
    ) -> _Measured:
        """What is found out of a task, unless the run has ended meanwhile."""
        task = aimed(task, self.machine)
        try:
            text, kernels = text_of(task), list(map(text_of, kernels_of(task)))
        except NotSent as error:
            return _Measured(Failed(str(error)))
        libraries = []
        for kernel in kernels:
            library = _ENDED if ended.is_set() else self._built(kernel, limit, memory)
            if isinstance(library, Failed):
                return _Measured(library)
            libraries.append(library)
        since = monotonic()
        with lanes:
            if ended.is_set():
                return _Measured(_ENDED)
            return self._timed(Artifact(text, tuple(libraries)), limit, memory, since, ended)

    def _built(self, kernel: str, limit: float, memory: Memory) -> bytes | Failed:
        with self._builders:
            if self.executor is None:
                return built(kernel, limit, memory)
            try:
                return self.executor.submit(built, kernel, limit, memory).result()
            except Exception as error:  # An executor has its own reasons; `built` raises none.
                said = str(error) or type(error).__name__
                return Failed(f"the executor built no kernel: {said}", passing=True)

    def _timed(
        self, artifact: Artifact, limit: float, memory: Memory, since: float, ended: Event
    ) -> _Measured:
        """The answer of the first device that gives one. The kernels were ready at `since`."""
        queued, lost = 0.0, 0
        while True:
            try:
                with self.devices.lent() as device:
                    queued += monotonic() - since
                    answer = device.measure(artifact, limit, memory)
            except NoDevice as error:
                return _Measured(Failed(str(error), passing=True), queued, lost)
            except Lost as error:
                answer = Failed(str(error), passing=True)
            if not (isinstance(answer, Failed) and answer.passing):
                return _Measured(answer, queued, lost)
            lost, since = lost + 1, monotonic()
            if lost == TRIES or ended.is_set():
                reason = f"{lost} devices were tried for one kernel; the last: {answer.reason}"
                return _Measured(Failed(reason, passing=True), queued, lost)


def aimed(task: Task, machine: Machine) -> Task:
    """`task` for the processor of `machine`, where its target names none."""
    if isinstance(task, InTurnTask):
        kernels = (replace(k, toolchain=machine.aimed(k.toolchain)) for k in task.kernels)
        return InTurnTask(tuple(kernels))
    return replace(task, toolchain=machine.aimed(task.toolchain))


def kernels_of(task: Task) -> tuple[KernelTask, ...]:
    """The kernels that are built for a task."""
    match task:
        case KernelTask():
            return (task,)
        case InTurnTask(kernels):
            return kernels
        case OverheadTask():
            return ()


class Here:
    """This machine as the only device, for kernels that an executor builds elsewhere."""

    def __init__(self) -> None:
        self.machine = this_machine()
        self._process = Process(measure_artifact)
        self._lock = Lock()

    def count(self) -> int:
        return 1

    @contextmanager
    def lent(self) -> "Iterator[Here]":
        with self._lock:
            yield self

    def measure(self, artifact: Artifact, limit: float, memory: Memory) -> Answer:
        answer: Answer = self._process.answer(artifact, limit, memory)
        return answer

    def stop(self) -> None:
        self._process.stop()


@dataclass(slots=True)
class Process:
    """
    Another process of this machine that does `work`, one task at a time. There is a new one where
    the next task may take more or less `memory`.
    """

    work: Work[Any, Any]
    memory: Memory = None
    workers: Workers[Any, Any] | None = None

    def answer(self, task: object, limit: float, memory: Memory) -> Any:
        if self.workers is None or memory != self.memory:
            self.stop()
            self.workers, self.memory = Workers(self.work, memory=memory), memory
        return answered(self.workers, task, limit)

    def stop(self) -> None:
        """End it, whatever it is doing. It starts again when it is needed."""
        if self.workers is not None:
            self.workers.stop()


def in_thread(work: Callable[..., Result], *arguments: Any) -> "Future[Result]":
    """
    The result of `work`, which a thread of its own does. A thread that hangs, in a library or in
    the network, does not keep this process from ending.
    """
    future: Future[Result] = Future()

    def do() -> None:
        try:
            future.set_result(work(*arguments))
        except BaseException as error:  # It is raised again where the result is asked for.
            future.set_exception(error)

    Thread(target=do, daemon=True).start()
    return future


def answered(workers: "Workers[Any, Any]", task: object, limit: float) -> Any:
    """The answer of a worker that has no other task."""
    answers = []

    def job() -> Job[Any, Any]:
        answers.append((yield task, limit))

    workers.run([job()])
    return answers[0]


_every: list[Process] = []
_idle: list[Process] = []
"""The processes that build kernels here, and those of them that are free."""


def built(task: str, limit: float, memory: Memory = None) -> bytes | Failed:
    """
    The library of a kernel, built in another process of this machine: a crash there fails only this
    task. This is what an executor runs; it may run in several threads.
    """
    _allow_children()
    try:
        process = _idle.pop()
    except IndexError:
        process = Process(build_artifact)
        _every.append(process)
    try:
        found: bytes | Failed = process.answer(task, limit, memory)
    finally:
        _idle.append(process)
    return found


def stop_builders() -> None:
    """End the processes that build kernels here."""
    for process in _every.copy():  # Another thread may add one.
        process.stop()


def _allow_children() -> None:
    """
    Let this process have child processes. The workers of Dask are daemons, which may have none:
    multiprocessing could not end them. Ours end by themselves when the process that they work for
    ends in any way.
    """
    this: Any = current_process()
    if this.daemon:
        this._config["daemon"] = False
