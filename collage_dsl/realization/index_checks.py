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
from collage_dsl.realization.signature import ExecutableError

_INDEX = "collage_index"
_RAISE = "collage.index_out_of_range"


def checked(value: Any, size: Any, operator: str) -> Any:
    """
    `value` as an index of `operator` into an axis of `size` elements. A negative one counts from
    the end. It stands for a check too, which `with_checks` makes.
    """
    wide = [tirx.Cast("int64", tirx.convert(each)) for each in (value, size)]
    return tirx.call_pure_extern("int64", _INDEX, *wide, StringImm(operator))


@tvm_ffi.register_global_func(_RAISE)
def _raise(operator: str, index: int, size: int) -> None:
    """What a kernel calls for an `index` that is out of range."""
    valid = f"valid are {-size} to {size - 1}" if size else "the axis has no elements"
    raise ExecutableError(f"{operator}: index {index} is out of range, {valid}")


def without_marks(function: Any, *, on_cpu: bool) -> tuple[Any, Any | None]:
    """
    The function with plain indices in place of those that are `checked`, and the statement that
    checks them. There is none for other devices: they take the nearest valid index.
    """
    marks = _marks(function.body)
    if not marks:
        return function, None
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
        value, size = call.args[1], call.args[2]
        found = tirx.Select(value < 0, value + size, value)
        return found if on_cpu else tirx.max(tirx.min(found, size - 1), integer(0))

    return tvm_ffi.structural_map(statement, (Call, index))


def _checks(root: Any) -> Any:
    """
    The checks of all indices in the `root` of a function before it is scheduled. What computes
    an index is computed for the check too, since a schedule may keep no tensor of it.
    """
    nests = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    made = set(root.alloc_buffers)
    checks = []
    for place, nest in enumerate(nests):
        for mark in _marks(nest):
            before = _makers(mark, nests[:place], made)
            body = sequence([*(_plain(each, on_cpu=True) for each in before), _check(mark, nest)])
            checks.append(_renewed(scoped([], body, "check"), made))
    return sequence(checks)


def _makers(mark: Any, nests: Sequence[Any], made: set[Any]) -> list[Any]:
    """The statements of `nests` that compute the tensors that `mark` reads."""
    needed = {read.source for read in loads(mark)} & made
    found: list[Any] = []
    for nest in reversed(nests):
        if needed & _stored(nest):
            found.insert(0, nest)
            needed |= {read.source for read in loads(nest)} & made
    return found


def _stored(statement: Any) -> set[Any]:
    found: set[Any] = set()
    tvm_ffi.structural_walk(statement, (tirx.BufferStore, lambda each: found.add(each.buffer)))
    return found


def _check(mark: Any, nest: Any) -> Any:
    """The smallest and the largest value of one index, compared with the range that is valid."""
    _, value, size, operator = mark.args
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
    for bad, found in ((low < 0 - size, low), (high >= size, high)):
        error = tirx.Evaluate(tirx.call_packed(_RAISE, operator, found, size))
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


def _renewed(statement: Any, made: set[Any]) -> Any:
    """A copy of `statement` with variables and tensors of its own in place of those of `made`."""
    defined: list[Any] = []

    def note(*variables_: Any) -> None:
        defined.extend(variables_)

    tvm_ffi.structural_walk(
        statement,
        (
            (tirx.For, lambda each: note(each.loop_var)),
            (tirx.IterVar, lambda each: note(each.var)),
            (tirx.Bind, lambda each: note(each.var)),
            (s_tir.SBlock, lambda each: note(*each.alloc_buffers)),
        ),
    )
    copies = [each for each in made if each in _stored(statement)]
    fresh = {var: Var(var.name, var.ty) for var in (*defined, *copies)}
    return scoped([fresh[each] for each in copies], substitute(statement, fresh), "check")
