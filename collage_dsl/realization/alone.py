"""Make a module of one kernel, whose `main` only calls this kernel, to measure or test it."""

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import find_backend, native_name
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.frontend.arrays import constant
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import CandidateKernel, Toolchain, members
from collage_dsl.graph.operators import CALL_TIR
from collage_dsl.realization.kernel import marked
from collage_dsl.realization.replaced import global_var

KERNEL = "kernel"
"""The name of the function of the kernel."""


def alone(
    function: Any,
    called: Mapping[Any, Any],
    toolchain: Toolchain,
    backend: Backend,
    weights: Mapping[int, Any] | None = None,
) -> tvm.IRModule:
    """
    A module of the kernel `function`, as `kernel_of` makes it, and the PrimFuncs that it calls.
    `main` has the results of the kernel and its parameters, but those, by position, for which
    `weights` have arrays.
    """
    constants = {i: constant(array) for i, array in (weights or {}).items()}
    callee = global_var(KERNEL, function.ty)
    params = [relax.Var(param.name, param.ty) for param in function.params]
    given = [constants.get(i, param) for i, param in enumerate(params)]
    builder = relax.BlockBuilder()
    with builder.function("main", [p for i, p in enumerate(params) if i not in constants]):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(callee, given))
        builder.emit_func_output(result)
    main = relax.utils.copy_with_new_vars(builder.get()["main"])
    kernel = marked(function, KERNEL, toolchain, backend)
    return tvm.IRModule({callee: kernel, tvm.ir.GlobalVar("main"): main, **called})


def build_target(toolchain: Toolchain) -> Any | None:
    """
    The target that a module with one kernel is built for; None where TVM makes no code for what
    is around the kernel there, and `build` decides.
    """
    kinds = find_backend(native_name(toolchain.kind)).kinds
    return kernel_target(toolchain) if toolchain.kind in kinds else None


def called_functions(candidate: CandidateKernel) -> dict[Any, Any]:
    """The PrimFuncs that a kernel calls, by their global variables."""
    graph = candidate.graph
    flow = dataflow_of(graph)
    calls = members(candidate.sub_graph.inside & graph.calls)
    compiled = [index for index in calls if graph.nodes[index].op == CALL_TIR]
    return {flow.origins[index].args[0]: graph.nodes[index].value for index in compiled}
