"""Primitive kernels that TVM has fused: scheduled, each by its backend and for its target."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import GPU_KINDS, find_backend, native_name
from collage_dsl.backends.schedule.functions import with_hyperbolic_functions
from collage_dsl.backends.schedule.ieee import with_ieee_values
from collage_dsl.backends.schedule.variants import Scheduled, VariantError
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.graph.operators import PACKED_CALLS
from collage_dsl.graph.target_kinds import share_device
from collage_dsl.graph.tuning import RECORD
from collage_dsl.realization.alignment import with_any_alignment
from collage_dsl.realization.defined import with_defined_casts, with_defined_integers
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.in_place import JOINS, joined
from collage_dsl.realization.index_checks import with_checks, without_marks
from collage_dsl.realization.kernel import BACKEND, TARGET, VARIANT
from collage_dsl.realization.link import called_functions, is_linked
from collage_dsl.realization.place import unique
from collage_dsl.realization.prepared import with_prepared
from collage_dsl.realization.replaced import typed, with_functions
from collage_dsl.realization.uniform_stores import without_uniform_stores


@dataclass(frozen=True, slots=True)
class Mark:
    """Who schedules a primitive kernel, for which target, and by which variant, if any is named."""

    backend: Backend
    target: Any
    variant: str = ""
    order: tuple[int, ...] = ()
    """The positions of the operands of a concatenation in place among the parameters."""

    record: str = ""
    """The text of the record of tuning that the variant schedules the function by."""

    def scheduled(self, function: Any) -> Scheduled:
        plain, checks = self.plain(function)
        made = self._scheduled(plain)
        kind = str(self.target.kind.name)
        whole = with_defined_casts(with_checks(made.function, checks), kind)
        return replace(made, function=without_uniform_stores(whole))

    def plain(self, function: Any) -> tuple[Any, Any]:
        """What is scheduled of a function, and the statement that checks its indices, if any."""
        on_cpu = share_device(str(self.target.kind.name), "llvm")
        return without_marks(with_defined_integers(function), on_cpu=on_cpu)

    def _scheduled(self, function: Any) -> Scheduled:
        if self.record:
            function = function.with_attr(RECORD, self.record)
        if not self.variant:
            return Scheduled(self.backend.schedule(function, self.target))
        try:
            return self.backend.schedule_variant(function, self.target, self.variant)
        except VariantError as error:
            raise BuildError(f"{self.variant}: {error}") from error

    @property
    def is_fast_math(self) -> bool:
        """Whether its target leaves out the rules of IEEE 754."""
        options = self.target.export().items()
        return any(value for name, value in options if str(name).startswith("fast-math"))

    def exact(self, function: Any) -> Any:
        """
        A scheduled function with values as IEEE 754 has them. One with fast math does not get
        them, and one for a GPU stays as it is: it got them before it was scheduled.
        """
        if str(self.target.kind.name) in GPU_KINDS:
            return function
        function = with_hyperbolic_functions(function)
        return function if self.is_fast_math else with_ieee_values(function)

    def is_made_with(self, target: Any) -> bool:
        """
        Whether its code may be made with the rest of a module for `target`. A concatenation in
        place may wherever its tensors are: it has to be there to be left out.
        """
        if self.order and share_device(str(self.target.kind.name), str(target.kind.name)):
            return True
        return _is_same_target(self.target, target)


def marks_of(module: tvm.IRModule, backends: Sequence[Backend]) -> Iterator[tuple[str, Mark]]:
    """
    The mark of each primitive kernel of ours, by the name of its function. Raises `BuildError` if
    one calls a packed function.
    """
    find = _finder(backends)
    for var, function in module.functions_items():
        attrs = function.attrs or {}
        if attrs.get(BACKEND) is not None and attrs.get("Primitive"):
            _check_calls(str(var.name_hint), function)
            mark = _mark(attrs, find)
            in_place = mark.variant == IN_PLACE
            yield var.name_hint, replace(mark, order=joined(function)) if in_place else mark


def _check_calls(name: str, kernel: Any) -> None:
    calls = (binding.value for block in kernel.body.blocks for binding in block.bindings)
    for call in calls:
        if isinstance(call, tvm.ir.Call) and call.op in _PACKED_CALLS:
            called = getattr(call.args[0], "global_symbol", call.args[0])
            raise BuildError(
                f"kernel `{name}` calls the packed function `{called}`, of which TVM has no code; "
                "leave this call out of the kernels, or give it to a library"
            )


_PACKED_CALLS = tuple(tvm.ir.Op.get(f"relax.{name}") for name in sorted(PACKED_CALLS))


def inherited_marks(
    module: tvm.IRModule, backends: Sequence[Backend]
) -> Iterator[tuple[str, Mark]]:
    """The mark of each PrimFunc that a kernel linked to a library calls, by its name."""
    find = _finder(backends)
    for _, function in module.functions_items():
        if is_linked(function):
            mark = _mark(function.attrs, find)
            for called in called_functions(function):
                yield called.name_hint, mark


def _finder(backends: Sequence[Backend]) -> Callable[[str], Backend]:
    """`find_backend`, which asks once for each name what is installed."""
    return cache(lambda name: find_backend(name, backends))


def _mark(attrs: Any, find: Callable[[str], Backend]) -> Mark:
    backend, variant = find(str(attrs[BACKEND])), str(attrs.get(VARIANT) or "")
    return Mark(backend, attrs[TARGET], variant, record=str(attrs.get(RECORD) or ""))


def scheduled(
    module: tvm.IRModule,
    marks: Mapping[str, Mark],
    kept: set[str],
    target: Any,
    *,
    prepares_at_load: bool = False,
) -> tvm.IRModule:
    """
    Every PrimFunc, but those of the names `kept`, scheduled by the backend that `marks` have for
    it, else by the native one. See `with_prepared` for `prepares_at_load`.
    """
    usual = Mark(find_backend(native_name(str(target.kind.name))), target)
    result = with_functions(module, {})
    elsewhere: list[tuple[Any, Any, Any]] = []
    prepared: dict[Any, Mapping[int, Any]] = {}
    for var, function in module.functions_items():
        name = var.name_hint
        if name in marks and not is_prim_func(function):
            raise BuildError(f"TVM does not fuse {name} into one kernel")
        if is_prim_func(function) and (name in marks or name not in kept):
            mark = marks.get(name, usual)
            made = mark.scheduled(function)
            function = with_any_alignment(mark.exact(made.function))
            if mark.order:
                function = function.with_attr(JOINS, list(mark.order))
            if made.prepared:
                prepared[var] = made.prepared
            if not mark.is_made_with(target):
                elsewhere.append((mark.target, var, function))
                continue
        elif is_prim_func(function):
            function = with_any_alignment(function)
        result[var] = function
    result = with_prepared(result, prepared, at_load=prepares_at_load)
    result = _with_external(result, elsewhere)
    if not any(is_prim_func(function) for _, function in result.functions_items()):
        name = unique(_PLACEHOLDER, {str(var.name_hint) for var in result.get_global_vars()})
        result[name] = _placeholder(name)
    return result


def is_prim_func(function: Any) -> bool:
    return isinstance(function, tirx.PrimFunc)


def with_attribute(module: tvm.IRModule, name: str) -> list[Any]:
    functions = (function for _, function in module.functions_items())
    return [f for f in functions if isinstance(f, relax.Function) and (f.attrs or {}).get(name)]


# Kernels for other targets than the module's.


def _is_same_target(one: Any, other: Any) -> bool:
    """
    Whether code for the two is the same: they differ in their host, their features and the
    libraries that they link to at most.
    """
    return _code_options(one) == _code_options(other)


def _code_options(target: Any) -> dict[str, Any]:
    return {
        str(name): str(value)
        for name, value in target.export().items()
        if name not in ("host", "tag", "keys", "libs") and not name.startswith("feature.")
    }


def _with_external(module: tvm.IRModule, functions: Sequence[tuple[Any, Any, Any]]) -> tvm.IRModule:
    """
    `module` with calls of runtime modules in place of calls of PrimFuncs: `functions` has the
    target, the global variable and the function of each.
    """
    if not functions:
        return module
    callees = {hash(var): relax.ExternFunc(var.name_hint) for _, var, _ in functions}

    def external(call: Any) -> Any:
        if call.op != _CALL_TIR or hash(call.args[0]) not in callees:
            return call
        callee = callees[hash(call.args[0])]
        packed = relax.Call(_CALL_DPS_PACKED, [callee, *call.args[1:]], None, call.ty_args)
        return typed(packed, call.ty)

    for var, function in module.functions_items():
        if isinstance(function, relax.Function):
            module[var] = tvm_ffi.structural_map(function, (tvm.ir.Call, external))
    before = list((module.attrs or {}).get("external_mods", []))
    return module.with_attr("external_mods", [*before, *_runtime_modules(functions)])


def _runtime_modules(functions: Sequence[tuple[Any, Any, Any]]) -> list[Any]:
    """The PrimFuncs compiled, those of one target together."""
    modules: dict[str, tuple[Any, dict[str, Any]]] = {}
    for target, var, function in functions:
        _, together = modules.setdefault(str(_code_options(target)), (target, {}))
        together[var.name_hint] = function.with_attr("global_symbol", var.name_hint)
    return [tvm.tirx.build(tvm.IRModule(each), target) for target, each in modules.values()]


_CALL_TIR = tvm.ir.Op.get("relax.call_tir")
_CALL_DPS_PACKED = tvm.ir.Op.get("relax.call_dps_packed")

_PLACEHOLDER = "collage_placeholder"


def _placeholder(name: str) -> Any:
    """
    A function that nothing calls. Without any PrimFunc in a module, the VM would run a C++
    compiler when it loads the executable.
    """
    source = tvm.te.placeholder((1,), name="source")
    result = tvm.te.compute((1,), lambda i: source[i], name="result")
    function = tvm.te.create_prim_func([source, result])
    return function.with_attr("global_symbol", name)
