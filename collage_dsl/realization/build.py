"""Lowering a realized module and building it."""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.schedule import schedule
from collage_dsl.backends.tvm import machine_target, tvm_target
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.graph import Option, Toolchain
from collage_dsl.realization.alignment import accept_any_alignment
from collage_dsl.realization.module import OPTION_PREFIX, BackendOf, Realized

_FUSE = (
    relax.transform.LegalizeOps,
    relax.transform.AnnotateTIROpPattern,
    relax.transform.FuseOps,
    relax.transform.FuseTIR,
)


class BuildError(Exception):
    """A kernel cannot be built."""


def lower(realized: Realized, backend_of: BackendOf) -> tvm.IRModule:
    """
    The module with library kernels compiled by their backends, and each native kernel one
    scheduled PrimFunc. Raises `BuildError` where a native kernel does not become one, and
    `TypeError` where the graph has another type for a convolution or pool than TVM.
    """
    relax.analysis.well_formed(realized.module)  # which does not take the types of the graph
    toolchains = {kernel.toolchain for kernel in realized.kernels.values()}
    register_codegens(toolchains, backend_of)
    module = relax.transform.RunCodegen()(realized.module)
    with tvm_target(_native_toolchain(realized, backend_of)):
        module = relax.backend.DispatchSortScan()(module)  # LegalizeOps leaves sort, topk, cumsum
    module = tvm.transform.Sequential([fuse() for fuse in _FUSE])(module)
    return _scheduled(module, realized, backend_of)


def build(realized: Realized, backend_of: BackendOf) -> Any:
    """The `relax.VMExecutable` of a realized module."""
    module = lower(realized, backend_of)
    toolchain = _native_toolchain(realized, backend_of)
    return tvm.compile(module, tvm_target(toolchain), relax_pipeline=_PIPELINE)


def _native_toolchain(realized: Realized, backend_of: BackendOf) -> Toolchain:
    """What TVM compiles for. Raises `BuildError` where kernels of TVM are for two targets."""
    toolchains = [kernel.toolchain for kernel in realized.kernels.values()]
    native = [t for t in toolchains if not isinstance(backend_of(t), LibraryBackend)]
    chosen = next(iter(native or toolchains), Toolchain("host"))
    other = next((t for t in native if machine_target(t) != machine_target(chosen)), None)
    if other:
        raise BuildError(
            f"targets `{chosen.name}` and `{other.name}` want TVM to compile for two processors"
        )
    return chosen


_PIPELINE = tvm.transform.Sequential(
    [
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]
)
"""What follows fusion in TVM's own pipeline for CPUs."""


def register_codegens(toolchains: set[Toolchain], backend_of: BackendOf) -> None:
    """Have `RunCodegen` find the library backends of `toolchains` (`relax.ext.NAME`)."""
    for toolchain in toolchains:
        backend = backend_of(toolchain)
        if isinstance(backend, LibraryBackend):
            name = f"relax.ext.{toolchain.compiler}"
            tvm_ffi.register_global_func(name, _codegen(backend), override=True)


def _codegen(backend: LibraryBackend) -> Callable[..., list[Any]]:
    def codegen(functions: Sequence[Any], _options: Any, _constant_names: Any) -> list[Any]:
        return [_compiled(backend, function) for function in functions]

    return codegen


def _compiled(backend: LibraryBackend, function: Any) -> Any:
    symbol = str(function.attrs["global_symbol"])
    graph = from_relax(tvm.IRModule({"kernel": function}), "kernel")
    return backend.codegen(graph, symbol, _options(function))


def _options(function: Any) -> dict[str, Option]:
    return {
        str(key).removeprefix(OPTION_PREFIX): _plain(value)
        for key, value in function.attrs.items()
        if str(key).startswith(OPTION_PREFIX)
    }


def _plain(value: Any) -> Option:
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        return value.value
    return value if isinstance(value, bool | int | float) else str(value)


def _scheduled(module: tvm.IRModule, realized: Realized, backend_of: BackendOf) -> tvm.IRModule:
    result = tvm.IRModule(attrs=module.attrs)
    for var, function in module.functions_items():
        name = var.name_hint
        kernel = realized.kernels.get(name)
        native = kernel and not isinstance(backend_of(kernel.toolchain), LibraryBackend)
        if kernel and native:
            if not isinstance(function, tirx.PrimFunc):
                raise BuildError(f"TVM does not fuse {kernel.label} into one kernel")
            function = schedule(function, target=tvm_target(kernel.toolchain))
        result[var] = function
    if not any(isinstance(f, tirx.PrimFunc) for _, f in result.functions_items()):
        result[_PLACEHOLDER] = _placeholder()
    return accept_any_alignment(result)


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
