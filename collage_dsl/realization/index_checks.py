"""Check the indices that a kernel takes from tensors, in each call, before it uses them."""

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, StringImm, Var

from collage_dsl.backends.schedule.expressions import (
    called,
    integer,
    loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.loops import load, scoped, scratch, sequence, store
from collage_dsl.realization.index_errors import INDEX_OUT_OF_RANGE, prepare_index_errors

_INDEX = "collage_index"


def checked(value: Any, size: Any, operator: str) -> Any:
    """
    `value` as an index of `operator` into an axis of `size` elements. A negative one counts from
    the end. It stands for a check too, which `with_checks` makes.
    """
    value, size = (tirx.Cast("int64", tirx.convert(each)) for each in (value, size))
    from_start = tirx.Select(value < 0, value + size, value)
    return _mark(from_start, value, 0 - size, size, operator)


def checked_float(value: Any, size: Any, operator: str) -> Any:
    """`value`, a float that is the index from the start of one of `size`, which is checked too."""
    index = tirx.Cast("int64", value)
    return _mark(value, index, integer(0), tirx.Cast("int64", tirx.convert(size)), operator)


def _mark(result: Any, value: Any, first: Any, end: Any, operator: str) -> Any:
    """`result`, if `value` is from `first` to before `end`."""
    name = StringImm(operator)
    return tirx.call_pure_extern(result.ty.dtype, _INDEX, result, value, first, end, name)


def without_marks(function: Any, *, on_cpu: bool) -> tuple[Any, Any | None]:
    """
    The function with plain indices in place of those that are `checked`, and the statement that
    checks them. There is none for other devices: they take the nearest valid index.
    """
    if not _marks(function.body):
        return function, None
    prepare_index_errors()
    plain = function.with_body(_plain(function.body, on_cpu=on_cpu))
    return plain, _checks(function.body.block) if on_cpu else None


def with_checks(function: Any, checks: Any | None) -> Any:
    """`function`, scheduled, with `checks` before what it does."""
    if checks is None:
        return function
    return function.with_body(scoped([], sequence([checks, function.body]), "root"))


def _is_mark(call: Any) -> bool:
    return called(call, "tirx.call_pure_extern") and call.args[0].value == _INDEX


def _marks(statement: Any) -> list[Any]:
    """The different calls of `checked`, in order."""
    found: list[Any] = []

    def note(call: Any) -> None:
        if _is_mark(call) and not any(tvm_ffi.structural_equal(call, each) for each in found):
            found.append(call)

    tvm_ffi.structural_walk(statement, (Call, note))
    return found


def _plain(statement: Any, *, on_cpu: bool) -> Any:
    def index(call: Any) -> Any:
        if not _is_mark(call):
            return call
        _, result, _, _, end, _ = call.args
        if on_cpu:
            return result
        zero, last = (tirx.Cast(result.ty.dtype, each) for each in (integer(0), end - 1))
        return tirx.max(tirx.min(result, last), zero)

    return tvm_ffi.structural_map(statement, (Call, index))


def _checks(root: Any) -> Any:
    """
    The checks of all indices in the `root` of a function before it is scheduled. What computes
    an index is computed for the check too, since a schedule may keep no tensor of it.
    """
    nests = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    checks = []
    for place, nest in enumerate(nests):
        for mark in _marks(nest):
            makers = (_plain(each, on_cpu=True) for each in _makers(mark, nests[:place]))
            body = sequence([*makers, _check(mark, nest)])
            checks.append(_copied(scoped([], body, "check")))
    return sequence(checks)


def _makers(mark: Any, nests: Sequence[Any]) -> list[Any]:
    """The statements of `nests` that compute the tensors that `mark` reads."""
    needed = {read.source for read in loads(mark)}
    found: list[Any] = []
    for nest in reversed(nests):
        if not needed.isdisjoint(_stored(nest)):
            found.insert(0, nest)
            needed |= {read.source for read in loads(nest)}
    return found


def _stored(statement: Any) -> list[Any]:
    """The tensors that a statement writes, in order."""
    found: dict[Any, None] = {}

    def note(each: Any) -> None:
        found[each.buffer] = None

    tvm_ffi.structural_walk(statement, (tirx.BufferStore, note))
    return list(found)


def _check(mark: Any, nest: Any) -> Any:
    """The smallest and the largest value of one index, compared with the range that is valid."""
    _, _, value, first, end, operator = mark.args
    lowest, highest = (scratch(1, "int64", name, "local") for name in ("lowest", "highest"))
    at = integer(0)
    low, high = load(lowest, at), load(highest, at)
    body = sequence(
        [
            store(lowest, tirx.min(low, value), at),
            store(highest, tirx.max(high, value), at),
        ]
    )
    for var, start, extent in reversed(list(_loops(nest, variables(value)))):
        body = tirx.For(var, start, extent, tirx.ForKind.SERIAL, body)
    steps = [store(lowest, at, at), store(highest, integer(-1), at), body]
    for bad, found in ((low < first, low), (high >= end, high)):
        error = tirx.Evaluate(tirx.call_packed(INDEX_OUT_OF_RANGE, operator, found, first, end))
        steps.append(tirx.IfThenElse(bad, error, None))
    return scoped([lowest, highest], sequence(steps), "check")


def _loops(nest: Any, needed: set[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """The loops and axes of blocks in `nest` that give the variables `needed` their values."""
    found: list[tuple[Any, Any, Any]] = []

    def loop(each: Any) -> None:
        found.append((each.loop_var, each.min, each.extent))

    def axis(each: Any) -> None:
        found.append((each.var, each.dom.min, each.dom.extent))

    tvm_ffi.structural_walk(nest, ((tirx.For, loop), (tirx.IterVar, axis)))
    return (each for each in found if each[0] in needed)


def _copied(statement: Any) -> Any:
    """`statement` with variables and tensors of its own: it is in the function a second time."""
    defined: list[Any] = []
    allocated: list[Any] = []
    noted = (
        (tirx.For, lambda each: defined.append(each.loop_var)),
        (tirx.IterVar, lambda each: defined.append(each.var)),
        (tirx.Bind, lambda each: defined.append(each.var)),
        (s_tir.SBlock, lambda each: allocated.extend(each.alloc_buffers)),
    )
    tvm_ffi.structural_walk(statement, noted)
    missing = [each for each in _stored(statement) if each not in allocated]
    fresh = {var: Var(var.name, var.ty) for var in (*defined, *allocated, *missing)}
    return scoped([fresh[each] for each in missing], substitute(statement, fresh), "check")
