"""The fused function of one native kernel, before anything schedules it."""

from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import CandidateKernel
from collage_dsl.realization.alone import KERNEL, alone, called_functions
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.kernel import kernel_of
from collage_dsl.realization.lower import fused
from collage_dsl.realization.native import is_prim_func
from collage_dsl.realization.outline import weights_of


def fused_function(candidate: CandidateKernel, backend: Backend) -> Any:
    """
    The PrimFunc that TVM makes of a primitive kernel, as its backend gets it to schedule it.

    Raises `BuildError` if TVM does not fuse the kernel into one function.
    """
    outlined = kernel_of(candidate, backend)
    function = outlined.bound(weights_of(dataflow_of(candidate.graph), outlined))
    toolchain = candidate.toolchain
    module = alone(function, called_functions(candidate), toolchain, backend)
    with kernel_target(toolchain):
        lowered, marks, _ = fused(module, (backend,))
    whole = lowered[KERNEL]
    if not is_prim_func(whole):
        raise BuildError(f"TVM does not fuse {candidate.label} into one kernel")
    return marks[KERNEL].plain(whole)[0]
