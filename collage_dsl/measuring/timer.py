"""Time kernels in other processes, here or in a fleet."""

import os
from collections.abc import Generator, Iterable, Sequence
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.cost import Infeasible
from collage_dsl.cost.spread import Spread
from collage_dsl.graph import CandidateKernel
from collage_dsl.measuring.counts import Counts
from collage_dsl.measuring.executors import Fleet
from collage_dsl.measuring.kernels import Kernels
from collage_dsl.measuring.overheads import LEAST_LAUNCH, MeasuringError, Overheads
from collage_dsl.measuring.pace import BRIEF, Patience
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import (
    Answer,
    InTurn,
    InTurnTask,
    Outcome,
    Overhead,
    OverheadTask,
    Task,
    Timing,
)
from collage_dsl.measuring.work import measure
from collage_dsl.measuring.worker import Job, Workers

_WORKERS = 4
"""The most processes that build kernels. Each holds libraries and the weights of a kernel."""

_OVERHEADS = 60.0
"""The least limit in seconds for the overheads of TVM, without which nothing is measured."""


class Timer:
    """
    Builds and times kernels within the limits of their targets and within `memory` bytes (half of
    those of the machine), and knows their `overheads`.

    Kernels of jobs that `run` together are built side by side on the cores of this machine. While
    one is timed, nothing is built. With `fleet`, kernels are built and timed where that says;
    `counts` then has how long they waited.
    """

    def __init__(
        self, kernels: Kernels, counts: Counts, *, memory: int | None, fleet: Fleet | None
    ) -> None:
        self.kernels = kernels
        self.counts = counts
        self.memory = kernels.kept.machine.memory if memory is None else memory
        self.fleet = fleet
        self.overheads = Overheads(kernels.kept, kernels.limit, self._alone)
        self._given_memory = memory
        cores = len(os.sched_getaffinity(0))
        self._workers = Workers[Task, Outcome](
            measure, count=min(cores, _WORKERS), memory=self.memory
        )

    def stop(self) -> None:
        """End the processes."""
        self._workers.stop()

    def run(self, jobs: Iterable[Job[Task, Any]]) -> None:
        """Run the tasks of `jobs`, in processes here or in the fleet."""
        if self.fleet is None:
            self._workers.run(jobs)
            return
        try:
            self.fleet.run(jobs, self._given_memory)
        finally:
            self.counts.queued, self.counts.lost = self.fleet.queued, self.fleet.lost

    def know(self, kernels: Iterable[CandidateKernel]) -> None:
        """Measure now, alone, what the costs of `kernels` need besides their own time."""
        for each in kernels:
            self.overheads.know(each.toolchain, self.kernels.backend_of(each.toolchain))

    def time(
        self, candidate: CandidateKernel, patience: Patience = BRIEF
    ) -> Generator[tuple[Task, float], Answer, Timing | Failed]:
        """
        The seconds of a kernel, without the cost of entering the executable. A slower machine is
        waited for as long as `patience` says; its seconds are not in the limit of the target.
        """
        toolchain = candidate.toolchain
        if toolchain.variant == IN_PLACE:
            return self._in_place(candidate, self.kernels.backend_of(toolchain))
        task = self.kernels.task(candidate, self.overheads.reference(), patience)
        limit = self.kernels.limit(toolchain) + (0.0 if patience == BRIEF else patience.seconds)
        measured = yield from self._work(task, limit)
        assert not isinstance(measured, Overhead | InTurn)
        return measured if isinstance(measured, Failed) else self._own(candidate, measured)

    def time_in_turn(
        self, candidates: Sequence[CandidateKernel]
    ) -> Generator[tuple[Task, float], Answer, list[Timing] | None]:
        """As `time`, for several kernels in turn; None where any of them fails."""
        reference = self.overheads.reference()
        tasks = tuple(self.kernels.task(each, reference) for each in candidates)
        limit = sum(self.kernels.limit(each.toolchain) for each in candidates)
        answer = yield from self._work(InTurnTask(tasks), limit)
        if not isinstance(answer, InTurn):
            return None
        return list(map(self._own, candidates, answer.timings))

    def _work(self, task: Task, limit: float) -> Generator[tuple[Task, float], Answer, Answer]:
        """
        The answer of a worker within `limit` seconds. Raises `MeasuringError` if the machine is the
        cause that there is none.
        """
        answer = yield task, limit
        if isinstance(answer, Failed) and answer.passing:
            raise MeasuringError(f"cannot measure kernels: {answer.reason}")
        return answer

    def _alone(self, task: OverheadTask) -> Overhead | Failed:
        """The answer of a worker, which has no other task then."""
        answers: list[Any] = []
        # It has many kernels.
        limit = max(self.kernels.limit(task.toolchain), self.kernels.timeout)
        if isinstance(task.backend, Tvm):
            limit = max(limit, _OVERHEADS)

        def job() -> Job[Task, Any]:
            answers.append((yield from self._work(task, limit)))

        self.run([job()])
        return answers[0]

    def _own(self, candidate: CandidateKernel, timing: Timing) -> Timing:
        """A timing less the cost of entering the executable."""
        toolchain = candidate.toolchain
        self.overheads.learn(timing)
        backend = self.kernels.backend_of(toolchain)
        return self.overheads.without_entry(timing, toolchain, backend)

    def _in_place(self, candidate: CandidateKernel, backend: Backend) -> Timing | Failed:
        """
        What runs no code. Its operands are views of its result, in place of tensors that they would
        have anyway. So it costs less than a launch, and as much as the lower bound says.
        """
        launch = self.overheads.launch(candidate.toolchain, backend)
        if isinstance(launch, Infeasible):
            return Failed(launch.reason, launch.kind)
        seconds = launch * LEAST_LAUNCH
        return Timing(seconds, spread=Spread(seconds, seconds, 1, "a part of a launch"))
