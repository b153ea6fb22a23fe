"""What a process does with a task: it builds a kernel, compares its results, and times it."""

import ctypes
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from collage_dsl.backends.engines import Held
from collage_dsl.backends.runtime.cores import wake
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.tvm_target import num_cores
from collage_dsl.cost.spread import Spread
from collage_dsl.graph import Measuring
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.built import built, tiny_runner
from collage_dsl.measuring.checked import error_of
from collage_dsl.measuring.interval import interval
from collage_dsl.measuring.pace import BRIEF, LONG, Patience, reference
from collage_dsl.measuring.task import (
    SMALL,
    InTurn,
    KernelTask,
    Outcome,
    Overhead,
    OverheadTask,
    Task,
    Timing,
    native_of,
)
from collage_dsl.measuring.timing import (
    Timed,
    evict,
    low,
    method,
    read,
    read_other,
    times_in_turn,
)


def measure(task: Task, made: Sequence[Path | None] = ()) -> Generator[None, None, Outcome]:
    """
    The function that a worker runs: it builds, and times after a `yield`. An OSError means that the
    machine is the cause. Kernels that were built elsewhere are in the libraries `made`.
    """
    if isinstance(task, OverheadTask):
        task.backend.prepare()
        return (yield from measure_overhead(task))
    if isinstance(task, KernelTask):
        return (yield from measure_kernel(task, *made))
    libraries = made or [None] * len(task.kernels)
    pairs = zip(task.kernels, libraries, strict=True)
    kernels = [prepared(*each, compares=False) for each in pairs]  # They were compared before.
    yield
    return InTurn(tuple(_timings(kernels, in_turn=True)))


def measure_kernel(task: KernelTask, made: Path | None = None) -> Generator[None, None, Timing]:
    """
    The seconds of one run of the kernel from Python, with random data (from a fixed seed), timed as
    its target says: what it takes and gives is where the kernels beside it leave that.

    This includes the launch of the kernel and entering the executable; see `measure_overhead`.
    """
    kernel = prepared(task, made)
    yield
    (timing,) = _timings([kernel])
    return timing


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel that is built, and only needs to be timed."""

    timed: Timed
    error: float | None
    reference: float | None
    patience: Patience = BRIEF


def _timings(kernels: Sequence[Prepared], *, in_turn: bool = False) -> Iterator[Timing]:
    """What kernels take that run in turn."""
    usual = next((each.reference for each in kernels if each.reference), None)
    patience = max((each.patience for each in kernels), key=lambda each: each.seconds)
    every, speed = times_in_turn([each.timed for each in kernels], usual, patience)
    for kernel, times in zip(kernels, every, strict=True):
        how = kernel.timed.measure
        shortest, longest = interval(times, how.percentile)
        said = method(kernel.timed.num_cores, how.percentile, in_turn=in_turn)
        spread = Spread(shortest, longest, len(times), said, speed)
        yield Timing(low(times, how.percentile), kernel.error, spread)


def prepared(task: KernelTask, made: Path | None = None, *, compares: bool = True) -> Prepared:
    """The kernel of a task, built, with random data, and run once. `compares` its results first."""
    for maker in (task.backend, *task.libraries):
        maker.prepare()
    kernel = built(task, np.random.default_rng(0), made)
    run, taken = kernel.run, memory_of(kernel.inputs)
    error = error_of(task, kernel) if compares else None
    before = tiny_runner(native_of(task.toolchain.by()), Tvm(), kernels=1)
    how, cores = task.toolchain.measure, num_cores(task.toolchain)
    result = run()

    def ready() -> None:
        nonlocal result
        if task.others is None:
            evict()
        else:
            read_other(task.others)
            read(
                [
                    *([] if "operands" in task.far else taken),
                    *([] if "results" in task.far else memory_of(result)),
                ]
            )
        result = None
        kernel.forget()  # The next result is in the same memory.
        before()
        wake(cores)  # While a model runs, the threads are awake when a kernel begins.

    def call() -> None:
        nonlocal result
        result = run()

    return Prepared(Timed(ready, call, cores, how), error, task.reference, task.patience)


def memory_of(values: Any) -> list[Array]:
    """The memory of those of some tensors that are on the processor."""
    every = [values] if isinstance(values, tvm.runtime.Tensor | Held) else list(values)
    tensors = [each for each in every if isinstance(each, tvm.runtime.Tensor)]
    return [_bytes(each) for each in tensors if each.device == tvm.cpu() and 0 not in each.shape]


def _bytes(tensor: Any) -> Array:
    """The memory of a tensor, of any dtype."""
    size = tensor.numel() * tensor.dtype.bits // 8
    address = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_uint8))
    return np.ctypeslib.as_array(address, (size,))


def measure_overhead(task: OverheadTask) -> Generator[None, None, Overhead]:
    """
    The cost of launching a kernel, from runs of one and of several small kernels. There are twice
    as many runs as for a kernel, with the same percentile, because a cost is a difference of two
    times; and a longer budget, because every cost depends on it.
    """
    one = tiny_runner(task.toolchain, task.backend, kernels=1)
    many = tiny_runner(task.toolchain, task.backend, kernels=_SEVERAL)
    usual, cores = task.toolchain.measure, num_cores(task.toolchain)
    how = replace(usual, repeats=2 * usual.repeats, budget=5 * usual.budget)
    yield
    known = task.reference or reference()
    singly, speed = _times_of(one, how, cores, known)
    together, later_speed = _times_of(many, how, cores, known)
    every, percentile = (singly, together), how.percentile
    alone, chained = (low(times, percentile) for times in every)
    launch = max(0.0, (chained - alone) / (_SEVERAL - 1))
    (least, most), (chained_least, chained_most) = (interval(each, percentile) for each in every)
    count, said = min(map(len, every)), method(cores, percentile)
    quick = max(0.0, (chained_least - most) / (_SEVERAL - 1))
    slow = max(0.0, (chained_most - least) / (_SEVERAL - 1))
    return Overhead(
        launch,
        max(0.0, alone - launch),
        known / max(1.0, speed, later_speed),
        Spread(quick, slow, count, said),
        Spread(max(0.0, least - launch), max(0.0, most - launch), count, said),
    )


_SEVERAL = 33
"""How many small kernels are chained, of which each costs a launch more than one alone."""


def _times_of(
    run: Callable[[], object], how: Measuring, cores: int, usual: float
) -> tuple[list[float], float]:
    """The seconds of some runs of small kernels, and the speed of the machine meanwhile."""

    def before() -> None:
        evict() if how.runs == "rarely" else read_other(SMALL)
        run()

    (times,), speed = times_in_turn([Timed(before, run, cores, how)], usual, LONG)
    return times, speed
