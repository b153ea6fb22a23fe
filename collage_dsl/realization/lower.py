"""The second half of the pipeline: lower a module with kernels, so that TVM's VM can run it."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from collage_dsl.backends.base import Backend
from collage_dsl.backends.instructions import instructions
from collage_dsl.backends.tvm_target import host_target
from collage_dsl.graph.target_kinds import share_device
from collage_dsl.realization.closures import with_types_of_closures
from collage_dsl.realization.crossing import virtual_devices
from collage_dsl.realization.generators import with_library_code
from collage_dsl.realization.in_place import without_copies
from collage_dsl.realization.kernel import BACKEND, TARGET
from collage_dsl.realization.legalize import legalized
from collage_dsl.realization.link import linked, with_own_functions
from collage_dsl.realization.native import (
    Mark,
    inherited_marks,
    is_prim_func,
    marks_of,
    scheduled,
    with_attribute,
)
from collage_dsl.realization.plain_buffers import with_plain_buffers
from collage_dsl.realization.planned_memory import with_planned_memory
from collage_dsl.realization.shape_functions import with_shape_functions
from collage_dsl.realization.specialize import specialized
from collage_dsl.realization.symbols import with_entry, with_symbols
from collage_dsl.realization.wider_types import in_wider_types
from collage_dsl.realization.writes import packed_writes, with_own_blocks

_FUSE_OPS = (relax.transform.AnnotateTIROpPattern, relax.transform.FuseOps)

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
)
"""
The passes after fusion in TVM's own pipeline for CPUs, before and after memory planning. Then come
`VMShapeLower` and `AttachGlobalSymbol`.
"""


def lowering(backends: Sequence[Backend] = (), *, prepares_at_load: bool = False) -> Any:
    """
    The passes that lower a module after `CollagePartition`, as one pass: the `relax_pipeline` of
    `tvm.compile` for such a module.

        tvm.compile(module, target, relax_pipeline=collage.lowering())

    The attributes of a kernel's function name its backend. The backend with that name, one of
    `backends` or an installed one, makes its code, for the TVM target that the kernel was chosen
    for. Calls that no kernel covers are fused by TVM, and scheduled like native kernels. A
    PrimFunc that was in the module stays as it was. Raises `BuildError` if a primitive kernel
    does not become one PrimFunc.

    Some kernels take weights in another form. The module has them in that form, or, with
    `prepares_at_load`, has functions that make them (see `realization.prepared`).
    """
    given = tuple(backends)

    def lower_module(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        target = tvm.target.Target.current(allow_none=True) or host_target()
        with target:
            lowered = lower(with_entry(module), target, given, prepares_at_load=prepares_at_load)
            written = packed_writes(lowered)
            module = without_copies(_in_turn(_TO_CALLS, with_own_blocks(lowered)))
            module = with_types_of_closures(with_planned_memory(module, written))
            module = _in_turn(_TO_VM, module)
            return with_symbols(with_shape_functions(module))

    return tvm.transform.module_pass(lower_module, opt_level=0, name="CollageLowering")


def _in_turn(passes: Sequence[Any], module: tvm.IRModule) -> tvm.IRModule:
    return tvm.transform.Sequential([each() for each in passes])(module)


def _without_bare_projections(module: tvm.IRModule) -> tvm.IRModule:
    """
    `module` in which a function that calls nothing is an ordinary one. `FuseOps` of TVM 0.27 makes
    a primitive function of the projections of a tuple in a tuple, and `FuseTIR` refuses it.
    """
    for var, function in module.functions_items():
        if isinstance(function, relax.Function) and (function.attrs or {}).get("Primitive"):
            bindings = (each for block in function.body.blocks for each in block.bindings)
            if not any(isinstance(each.value, tvm.ir.Call) for each in bindings):
                module[var] = function.without_attr("Primitive")
    return module


def whole_pipeline(partition: Any, backends: Sequence[Backend] = ()) -> Any:
    """
    Three passes as one: calls outside dataflow blocks get blocks of their own, `partition` puts
    kernels into the blocks, and `lowering` follows.
    """
    blocks = relax.transform.ConvertToDataflow(min_size=1)
    return tvm.transform.Sequential([blocks, partition, lowering(backends)])


def build(module: tvm.IRModule, target: Any = None, backends: Sequence[Backend] = ()) -> Any:
    """
    The `relax.VMExecutable` of a module with kernels; `entry.entry` gives its `main`. `target`
    is that of the module; by default that of its first primitive kernel on the default device,
    else one core of this machine.
    """
    relax.analysis.well_formed(module)  # which does not take the types of the graph
    target = target or _first_target(module) or host_target()
    passes = lowering(backends, prepares_at_load=True)
    return tvm.compile(module, target, relax_pipeline=passes)


def instructions_in(module: tvm.IRModule) -> tuple[str, ...]:
    """The `instructions` that the code may have that `build` makes of `module`."""
    targets = _targets(module) or [host_target()]
    return tuple(sorted(frozenset().union(*map(instructions, targets))))


def _targets(module: tvm.IRModule) -> list[Any]:
    """Those of the primitive kernels, in order."""
    return [function.attrs[TARGET] for function in with_attribute(module, BACKEND)]


def _first_target(module: tvm.IRModule) -> Any | None:
    """The target of the first primitive kernel on the default device."""
    targets = _targets(module)
    devices = virtual_devices(module)
    if devices:
        default = str(devices[0].target.kind.name)
        targets = [each for each in targets if share_device(str(each.kind.name), default)]
    return targets[0] if targets else None


def lower(
    module: tvm.IRModule,
    target: Any,
    backends: Sequence[Backend] = (),
    *,
    prepares_at_load: bool = False,
) -> tvm.IRModule:
    """
    `module` with library kernels compiled by their backends, and each primitive kernel lowered to
    one scheduled PrimFunc. PrimFuncs for another target than `target` are compiled too.
    """
    module, marks, before = fused(module, backends)
    return scheduled(module, marks, before, target, prepares_at_load=prepares_at_load)


def fused(
    module: tvm.IRModule, backends: Sequence[Backend] = ()
) -> tuple[tvm.IRModule, dict[str, Mark], set[str]]:
    """
    `module` with library kernels compiled by their backends, and each primitive kernel fused to one
    PrimFunc; the marks of these PrimFuncs, by name; and the names of those that were there before.
    """
    module = linked(module)
    marks = dict(marks_of(module, backends))
    before = {var.name_hint for var, each in module.functions_items() if is_prim_func(each)}
    module = with_library_code(module, backends)
    module = relax.transform.LambdaLift()(module)  # the VM has no functions inside of functions
    module = in_wider_types(module)
    module = relax.backend.DispatchSampling()(module)
    module = relax.backend.DispatchSortScan()(module)  # LegalizeOps leaves sort, topk, cumsum
    module = with_own_blocks(with_plain_buffers(legalized(module, before), before))
    module = _without_bare_projections(_in_turn(_FUSE_OPS, module))
    module = relax.transform.FuseTIR()(specialized(module))
    module = with_own_functions(module)
    return module, {**dict(inherited_marks(module, backends)), **marks}, before
