"""The native backend for GPUs: TVM makes each kernel, and its rules for GPUs schedule it."""

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import dlight

from collage_dsl.backends.base import Backend
from collage_dsl.backends.gpu_functions import exact, register_maxima, with_plain_names
from collage_dsl.backends.registry import GPU_KINDS, NATIVE_GPU
from collage_dsl.backends.tvm import Tvm
from collage_dsl.graph import Graph


@dataclass(frozen=True, slots=True)
class Gpu(Backend):
    """
    Kernels that TVM generates, scheduled by the first rule that fits of those that TVM's own
    pipelines for GPUs apply (`tvm.s_tir.dlight`), but that for a matrix and a vector: that of TVM
    0.27 computes wrong numbers for a depthwise convolution of one dimension.
    """

    @property
    def name(self) -> str:
        return NATIVE_GPU

    @property
    def version(self) -> str:
        return Tvm().version

    @property
    def kinds(self) -> tuple[str, ...]:
        return GPU_KINDS

    def supports(self, graph: Graph) -> str | None:
        return Tvm().supports(graph)

    def schedule(self, function: Any, target: Any) -> Any:
        gpu = dlight.gpu
        rules = (gpu.Matmul(), gpu.Reduction(), gpu.GeneralReduction())
        fitting = () if _reads_by_division(function) else map(_Tried, rules)
        shared = dlight.ApplyDefaultSchedule(*fitting, gpu.Fallback())
        plain = with_plain_names(exact(function))
        register_maxima()
        with target:
            return shared(tvm.IRModule({"main": plain}))["main"]


class _Tried(dlight.base.ScheduleRule):
    """
    A rule that does not fit a function where it, or what lowers its schedule, raises an error, as
    those of TVM 0.27 may.
    """

    def __init__(self, rule: Any) -> None:
        self.rule = rule

    def apply(self, func: Any, target: Any, tunable: bool) -> Any:
        try:
            schedule = self.rule.apply(func, target, tunable)
            if schedule is not None:
                s_tir.transform.LowerCrossThreadReduction()(schedule.mod)
        except Exception:  # of many types: what fails is TVM's rule, and the next one is tried
            return None
        return schedule


def _reads_by_division(function: Any) -> bool:
    """
    Whether a reduction reads where a quotient says, as a convolution of groups does. What the rules
    for reductions of TVM 0.27 make of that cannot always be built.
    """
    found: list[Any] = []

    def note(block: Any) -> None:
        if block.init is not None:
            divisions = (tirx.FloorDiv, tirx.FloorMod)
            for region in block.reads:
                for extent in region.region:
                    tvm_ffi.structural_walk(extent.min, (divisions, found.append))

    tvm_ffi.structural_walk(function, (s_tir.SBlock, note))
    return bool(found)
