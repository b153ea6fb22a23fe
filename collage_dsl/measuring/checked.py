"""Compare the results of a kernel with those of another implementation, before it is timed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import isfinite
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from collage_dsl.backends.engines import Held
from collage_dsl.backends.onnx_writer import Unsupported
from collage_dsl.cost import Refusal
from collage_dsl.frontend.reference import REFUSALS
from collage_dsl.graph import Graph
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.built import BuiltKernel, built, plain, replaced
from collage_dsl.measuring.process import Refused
from collage_dsl.measuring.task import KernelTask
from collage_dsl.realization.difference import (
    compared,
    is_exact,
    numbers_in,
    pooled,
    unchanged,
)
from collage_dsl.realization.onnx_reference import Reference, quantizes, summed_otherwise
from collage_dsl.realization.shaken import shaken

ONNXRUNTIME = "onnxruntime"


class WrongResult(Refused):
    """A kernel does not compute what another implementation does."""

    kind = Refusal.WRONG


@dataclass(frozen=True, slots=True)
class Right:
    """
    Another implementation of a kernel: its name, what it gives for some operands, and `others`,
    results that are as right but for rounding. Values on the way are rounded by `unit`, and to
    integers if it `quantizes`. It raises one of `REFUSALS` for operands that it does not take. For
    some operands it may not be defined what is right.
    """

    name: str
    run: Callable[[Sequence[Any]], list[Array]]
    others: Callable[[Sequence[Any]], Iterable[list[Array]]]
    unit: float = 0.0
    is_defined: Callable[[Sequence[Any]], bool] = lambda operands: True
    quantizes: bool = False

    def after(self, taken: Callable[[Sequence[Any]], Sequence[Any]]) -> "Right":
        """The same for operands of which it gets what is `taken` from them."""
        return replace(
            self,
            run=lambda operands: self.run(taken(operands)),
            others=lambda operands: self.others(taken(operands)),
            is_defined=lambda operands: self.is_defined(taken(operands)),
        )


def by_onnx(graph: Graph) -> Right | None:
    """
    The kernel `graph`, written as ONNX and run by onnxruntime without optimisations; None if it
    cannot be written so, or if onnxruntime does not run it.
    """
    try:
        reference = Reference(graph)
    except (Unsupported, *REFUSALS):
        return None

    def others(operands: Sequence[Any]) -> Iterator[list[Array]]:
        generator = np.random.default_rng(0)
        for _ in range(2):
            yield reference.run([shaken(each, generator, reference.unit) for each in operands])
        yield from reference.near(operands)

    return Right(
        *(ONNXRUNTIME, reference.run, others, reference.unit, reference.is_defined),
        quantizes=quantizes(graph, graph.calls),
    )


@dataclass(frozen=True, slots=True)
class Draw:
    """A way to draw floating point numbers as operands of a shape and dtype."""

    name: str
    drawn: Callable[[np.random.Generator, tuple[int, ...], str], Array]


def _large(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Sums of these are still finite in float16."""
    size = 10 if dtype == "float16" else 100
    return np.asarray(size * generator.standard_normal(shape, np.float32), dtype)


def _small(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Zeros, and numbers of both signs that are still normal ones in float16."""
    size = 1e-2 if dtype == "float16" else 1e-4
    array = size * generator.standard_normal(shape, np.float32)
    return np.asarray(np.where(generator.random(shape, np.float32) < _ZEROS, 0, array), dtype)


_ZEROS = 0.25
"""The part of small operands that is zero."""

DRAWS = (Draw("large", _large), Draw("small", _small))
"""Those besides the usual one, on which a kernel is timed."""


Errors = Mapping[int, tuple[float, float]]
"""By the place of a result, its error and the allowed one."""


def largest_error(right: Right, found: Mapping[str, Errors]) -> float:
    """
    The largest error of the results of a kernel for several draws. Raises `WrongResult` where an
    error is larger than allowed.
    """
    worst = 0.0
    for draw, errors in found.items():
        for place, (error, allowed) in errors.items():
            if right.quantizes:
                allowed = pooled(
                    allowed, [each[place][1] for each in found.values() if place in each]
                )
            if error > allowed:
                far = f" by {error:.0e}" if isfinite(error) else ""
                raise WrongResult(
                    f"its results differ from those of `{right.name}`{far} on {draw} inputs"
                )
            worst = max(worst, error)
    return worst


def errors_of(
    run: Callable[[Sequence[Any]], list[Array]], right: Right, operands: Sequence[Any]
) -> Errors | None:
    """
    The error of each result of a kernel that is a tensor, relative to the largest right number, and
    the allowed one; None where the other implementation does not take the operands, does not give
    tensors only, or gives what is not defined. Then the kernel does not run: the operands may be
    out of its range. Raises `WrongResult` if the kernel writes to its operands.
    """
    try:
        expected = right.run(operands)
        is_defined = right.is_defined(operands)
    except REFUSALS:
        return None
    if not is_defined:
        return None
    before = [np.array(value) for value in _arrays(operands)]
    actual = run(operands)
    if not all(map(_is_same, before, _arrays(operands))):
        raise WrongResult("it writes to its operands")
    if len(actual) != len(expected):
        return None

    @cache
    def others() -> list[list[Array]]:
        with np.errstate(all="ignore"):
            return list(right.others(operands))

    def of_result(place: int) -> list[Array]:
        return [each[place] for each in others()]

    return {
        place: _difference(made, wanted, partial(of_result, place), right.unit)
        for place, (made, wanted) in enumerate(zip(actual, expected, strict=True))
        if isinstance(wanted, np.ndarray) and wanted.dtype.kind != "O"
    }


def _arrays(operands: Sequence[Any]) -> list[Array]:
    values = map(plain, operands)
    return [value for value in values if isinstance(value, np.ndarray)]


def _is_same(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()


def _difference(
    found: Array, wanted: Array, others: Callable[[], list[Array]], unit: float
) -> tuple[float, float]:
    """
    The error of a result, and the allowed one. Where some of the right numbers are not finite, only
    those count that are finite in both: libraries treat the others in different ways. A result of
    which rounding decides the size is not compared.
    """
    special = not is_exact(wanted.dtype) and not np.isfinite(wanted.astype(np.float64)).all()
    shown = numbers_in(found, wanted) if special else unchanged
    error, allowed = compared(
        shown(found), shown(wanted), lambda: [shown(other) for other in others()], unit
    )
    if found.shape != wanted.shape and any(o.shape != wanted.shape for o in others()):
        return 0.0, allowed
    return error, allowed


def error_of(task: KernelTask, kernel: BuiltKernel) -> float | None:
    """
    The error of a variant that is not the first, on several ranges of operands. Raises
    `WrongResult` for any kernel that does not compute what another implementation does.
    """
    right = right_of(task, kernel)
    if right is None or any(isinstance(each, Held) for each in kernel.inputs):
        kernel.run()
        return None
    error = error_on(draws_of(task, kernel), kernel, right)
    return None if _is_first(task) else error


def error_on(
    draws: Iterable[tuple[str, Sequence[Any]]], kernel: BuiltKernel, right: Right
) -> float | None:
    """
    The largest error of a kernel on some operands; None if none of them can be compared. Raises
    `WrongResult`.
    """
    found = {draw: errors_of(kernel.results, right, operands) for draw, operands in draws}
    known = {draw: errors for draw, errors in found.items() if errors is not None}
    return largest_error(right, known) if known else None


def right_of(task: KernelTask, kernel: BuiltKernel) -> Right | None:
    """
    What the results of a kernel are compared with: onnxruntime; where that has no such kernel, the
    first variant of its backend.
    """
    check = task.check
    by_reference = by_onnx(check.graph) if check else None
    if check and by_reference:

        def taken(operands: Sequence[Any]) -> list[Any]:
            values = kernel.values(operands)
            return [values[position] for position in check.takes]

        return by_reference.after(taken)
    if _is_first(task):
        _first_variant[:] = [(task, kernel)]
        return None
    first = _first(task)

    def others(operands: Sequence[Any]) -> Iterator[list[Array]]:
        """Whole numbers that are rounded from long sums may be as right as these."""
        for changed in summed_otherwise([plain(each) for each in operands], 0.0):
            pairs = zip(operands, changed, strict=True)
            yield first.results([replaced(each, array) for each, array in pairs])

    return Right(task.backend.variants[0], first.results, others)


def _is_first(task: KernelTask) -> bool:
    """Whether a kernel is by the first variant of its backend, or by the only one."""
    variants = task.backend.variants
    return not variants or task.toolchain.variant in ("", variants[0])


_first_variant: list[tuple[KernelTask, BuiltKernel]] = []
"""The last kernel by the first variant of its backend that had no reference; empty at first."""


def _first(task: KernelTask) -> BuiltKernel:
    """The kernel by the first variant of its backend."""
    if not _first_variant or not _is_same_kernel(_first_variant[0][0], task):
        by_first = replace(task, toolchain=task.toolchain.by(*task.backend.variants[:1]))
        _first_variant[:] = [(by_first, built(by_first, np.random.default_rng(0)))]
    return _first_variant[0][1]


def draws_of(task: KernelTask, kernel: BuiltKernel) -> Iterator[tuple[str, Sequence[Any]]]:
    """Operands of a kernel: the usual ones, and floating point numbers of other ranges."""
    yield "usual", kernel.inputs
    drawn = {
        at: each
        for at, each in enumerate(kernel.inputs)
        if isinstance(each, tvm.runtime.Tensor)
        and "float" in str(each.dtype)
        and kernel.positions[at] not in task.given
    }
    for draw in DRAWS if drawn else ():
        operands, generator = list(kernel.inputs), np.random.default_rng(1)
        for at, each in drawn.items():
            array = draw.drawn(generator, tuple(map(int, each.shape)), str(each.dtype))
            operands[at] = tvm.runtime.tensor(array, each.device)
        yield draw.name, operands


def _is_same_kernel(one: KernelTask, other: KernelTask) -> bool:
    """Whether two tasks are the same kernel on the same data, by any variants."""
    is_alike = (one.backend, one.sizes) == (other.backend, other.sizes)
    same_values = _values(one) == _values(other)
    return is_alike and same_values and bool(tvm_ffi.structural_equal(one.module, other.module))


def _values(task: KernelTask) -> list[tuple[int, bytes]]:
    """The positions of constants, with the values that are known."""
    return [(at, b"" if value is None else value.tobytes()) for at, value in task.constants]
