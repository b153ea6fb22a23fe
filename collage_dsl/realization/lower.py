"""The second half of the pipeline: lower a module with kernels, so that TVM's VM can run it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from collage_dsl.backends.base import Backend, LibraryBackend
from collage_dsl.backends.registry import UnknownBackend, find_backend
from collage_dsl.backends.tvm import Tvm, host_target
from collage_dsl.frontend.attributes import plain
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.realization.alignment import with_any_alignment
from collage_dsl.realization.link import called_functions, is_linked, linked, with_own_functions
from collage_dsl.realization.place import BACKEND, OPTION_PREFIX, TARGET
from collage_dsl.realization.plain_buffers import with_plain_buffers

_FUSE = (
    relax.transform.AnnotateTIROpPattern,
    relax.transform.FuseOps,
    relax.transform.FuseTIR,
)

_TO_CALLS = (
    relax.transform.RewriteDataflowReshape,
    relax.transform.ToNonDataflow,
    relax.transform.RemovePurityChecking,
    relax.transform.CallTIRRewrite,
)
_TO_VM = (
    relax.transform.LowerAllocTensor,
    relax.transform.KillAfterLastUse,
    relax.transform.LowerRuntimeBuiltin,
    relax.transform.ComputePrimValue,
    relax.transform.VMShapeLower,
    relax.transform.AttachGlobalSymbol,
)
"""The passes after fusion in TVM's own pipeline for CPUs, before and after memory planning."""


@tvm_ffi.error.register_error
class BuildError(Exception):
    """A kernel cannot be built. TVM keeps the class of errors that it knows."""


def lowering(backends: Sequence[Backend] = ()) -> Any:
    """
    The passes that lower a module after `CollagePartition`, as one pass: the `relax_pipeline` of
    `tvm.compile` for such a module.

        tvm.compile(module, target, relax_pipeline=collage.lowering())

    The attributes of a kernel's function name its backend. The backend with that name, one of
    `backends` or an installed one, makes its code, for the TVM target that the kernel was chosen
    for. Calls that no kernel covers are fused by TVM, and scheduled like native kernels. A
    PrimFunc that was in the module stays as it was. Raises `BuildError` if a primitive kernel
    does not become one PrimFunc.
    """
    given = tuple(backends)

    def lower_module(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        target = tvm.target.Target.current(allow_none=True) or host_target()
        with target:
            module = _in_turn(_TO_CALLS, lower(module, target, given))
            return _in_turn(_TO_VM, _with_planned_memory(module))

    return tvm.transform.module_pass(lower_module, opt_level=0, name="CollageLowering")


def _in_turn(passes: Sequence[Any], module: tvm.IRModule) -> tvm.IRModule:
    return tvm.transform.Sequential([each() for each in passes])(module)


def _with_planned_memory(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` with the memory of tensors planned, but in functions with an `If`: TVM 0.27 would
    have one branch use what only the other one allocates.
    """
    planned = relax.transform.StaticPlanBlockMemory()(module)
    for var, function in module.functions_items():
        if isinstance(function, relax.Function) and _has_branches(function):
            planned[var] = function
    return planned


def _has_branches(function: Any) -> bool:
    found: list[Any] = []
    relax.analysis.post_order_visit(
        function, lambda expr: found.append(expr) if isinstance(expr, relax.If) else None
    )
    return bool(found)


def in_sequence(*passes: Any) -> Any:
    """One pass that runs `passes` one after the other."""
    return tvm.transform.Sequential(list(passes))


def build(module: tvm.IRModule, target: Any = None, backends: Sequence[Backend] = ()) -> Any:
    """
    The `relax.VMExecutable` of a module with kernels. `target` is that of the module; by default
    that of its first primitive kernel, else one core of this machine.
    """
    relax.analysis.well_formed(module)  # which does not take the types of the graph
    first = next((f.attrs[TARGET] for f in _with_attribute(module, BACKEND)), None)
    return tvm.compile(module, target or first or host_target(), relax_pipeline=lowering(backends))


def lower(module: tvm.IRModule, target: Any, backends: Sequence[Backend] = ()) -> tvm.IRModule:
    """
    `module` with library kernels compiled by their backends, and each primitive kernel lowered to
    one scheduled PrimFunc. PrimFuncs for another target than `target` are compiled too.
    """
    module = linked(module)
    marks = dict(_marks(module, backends))
    before = {var.name_hint for var, each in module.functions_items() if _is_prim(each)}
    with code_generators(module, backends):
        module = relax.transform.RunCodegen(entry_functions=_callers(module))(module)
    module = relax.backend.DispatchSampling()(module)
    module = relax.backend.DispatchSortScan()(module)  # LegalizeOps leaves sort, topk, cumsum
    module = with_plain_buffers(relax.transform.LegalizeOps()(module), before)
    module = _in_turn(_FUSE, module)
    module = with_own_functions(module)
    marks = {**dict(_inherited(module, backends)), **marks}
    return _scheduled(module, marks, before, target)


# Kernels of libraries.


@contextmanager
def code_generators(module: tvm.IRModule, backends: Sequence[Backend]) -> Iterator[None]:
    """
    Have `RunCodegen` find the backends of the kernels in `module` (`relax.ext.NAME`), and
    afterwards what it found before.
    """
    names = {str(each.attrs["Codegen"]) for each in _with_attribute(module, "Codegen")}
    ours = [backend for name in sorted(names) if (backend := _library(name, backends))]
    before = {each.name: _registered(each.name) for each in ours}
    try:
        for each in ours:
            _register(each)
        yield
    finally:
        for name, function in before.items():
            if function is None:
                tvm_ffi.registry.remove_global_func(_generator(name))
            else:
                tvm_ffi.register_global_func(_generator(name), function, override=True)


_OURS: set[str] = set()
"""The compilers whose code generators `offer_code_generator` has registered."""


def offer_code_generator(backend: LibraryBackend) -> None:
    """
    Have a plain `RunCodegen` ask `backend` for the code of its kernels, from now on; but not
    where somebody else has registered a code generator of that name.
    """
    if backend.name in _OURS or _registered(backend.name) is None:
        _OURS.add(backend.name)
        _register(backend)


def _registered(name: str) -> Any:
    return tvm_ffi.get_global_func(_generator(name), allow_missing=True)


def _register(backend: LibraryBackend) -> None:
    def codegen(functions: Sequence[Any], _options: Any, _constant_names: Any) -> list[Any]:
        return [_compiled(backend, function) for function in functions]

    tvm_ffi.register_global_func(_generator(backend.name), codegen, override=True)


def _callers(module: tvm.IRModule) -> list[str]:
    """The functions in which kernels of libraries may be called; TVM looks at public ones only."""
    return [
        var.name_hint
        for var, each in module.functions_items()
        if isinstance(each, relax.Function) and not _is_kernel(each)
    ]


def _is_kernel(function: Any) -> bool:
    attrs = function.attrs or {}
    return any(attrs.get(name) for name in ("Codegen", "Primitive"))


def _generator(name: str) -> str:
    return f"relax.ext.{name}"


def _library(name: str, backends: Sequence[Backend]) -> LibraryBackend | None:
    """
    The backend of a compiler; None where it is not one of ours, and TVM knows it. Raises
    `BuildError` where nobody does.
    """
    try:
        backend = find_backend(name, backends)
    except (UnknownBackend, ModuleNotFoundError) as error:
        if tvm_ffi.get_global_func(_generator(name), allow_missing=True) is None:
            raise BuildError(f"nothing makes kernels of the library `{name}`: {error}") from error
        return None
    if not isinstance(backend, LibraryBackend):
        raise BuildError(f"nothing makes kernels of the library `{name}`: it is no library")
    return backend


def _compiled(backend: LibraryBackend, function: Any) -> Any:
    symbol = str(function.attrs["global_symbol"])
    graph = from_relax(tvm.IRModule({"kernel": function}), "kernel")
    return backend.codegen(graph, symbol, _options(function))


def _options(function: Any) -> dict[str, Any]:
    return {
        str(key).removeprefix(OPTION_PREFIX): plain(value)
        for key, value in function.attrs.items()
        if str(key).startswith(OPTION_PREFIX)
    }


# Primitive kernels.


@dataclass(frozen=True, slots=True)
class _Mark:
    """Who schedules a primitive kernel, and for which target."""

    backend: Backend
    target: Any


def _marks(module: tvm.IRModule, backends: Sequence[Backend]) -> Iterator[tuple[str, _Mark]]:
    """The mark of each primitive kernel of ours, by the name of its function."""
    for var, function in module.functions_items():
        attrs = function.attrs or {}
        if attrs.get(BACKEND) is not None and attrs.get("Primitive"):
            yield var.name_hint, _mark(attrs, backends)


def _inherited(module: tvm.IRModule, backends: Sequence[Backend]) -> Iterator[tuple[str, _Mark]]:
    """The mark of each PrimFunc that a kernel linked to a library calls, by its name."""
    for _, function in module.functions_items():
        if is_linked(function):
            mark = _mark(function.attrs, backends)
            for called in called_functions(function):
                yield called.name_hint, mark


def _mark(attrs: Any, backends: Sequence[Backend]) -> _Mark:
    return _Mark(find_backend(str(attrs[BACKEND]), backends), attrs[TARGET])


def _scheduled(
    module: tvm.IRModule, marks: Mapping[str, _Mark], kept: set[str], target: Any
) -> tvm.IRModule:
    """
    Every PrimFunc, but those of the names `kept`, scheduled by the backend that `marks` have for
    it, else by ours.
    """
    usual = _Mark(Tvm(), target)
    result = tvm.IRModule(attrs=module.attrs, global_infos=module.global_infos)
    elsewhere: list[tuple[Any, Any, Any]] = []
    for var, function in module.functions_items():
        name = var.name_hint
        if name in marks and not _is_prim(function):
            raise BuildError(f"TVM does not fuse {name} into one kernel")
        if _is_prim(function) and (name in marks or name not in kept):
            mark = marks.get(name, usual)
            function = with_any_alignment(mark.backend.schedule(function, mark.target))
            if not _is_same_target(mark.target, target):
                elsewhere.append((mark.target, var, function))
                continue
        elif _is_prim(function):
            function = with_any_alignment(function)
        result[var] = function
    result = _with_external(result, elsewhere)
    if not any(_is_prim(function) for _, function in result.functions_items()):
        result[_PLACEHOLDER] = _placeholder()
    return result


def _is_prim(function: Any) -> bool:
    return isinstance(function, tirx.PrimFunc)


def _with_attribute(module: tvm.IRModule, name: str) -> list[Any]:
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
        relax.expr._update_type(packed, call.ty)
        return packed

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


def _placeholder() -> Any:
    """
    A function that nothing calls. Without any PrimFunc in a module, the VM would run a C++
    compiler when it loads the executable.
    """
    source = tvm.te.placeholder((1,), name="source")
    result = tvm.te.compute((1,), lambda i: source[i], name="result")
    function = tvm.te.create_prim_func([source, result])
    return function.with_attr("global_symbol", _PLACEHOLDER)
