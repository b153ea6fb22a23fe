"""Models whose kernels are tuned in tests, and schedules that need no search."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tvm import s_tir

from collage_dsl.backends.schedule.tuned import module_of, place_of
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.cost import Infeasible
from collage_dsl.cost.records import Records
from collage_dsl.cost.trials import Trial
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Record, SubGraph, Toolchain
from collage_dsl.measuring.recorded import label_of
from collage_dsl.measuring.schedules import trace_text
from collage_dsl.realization.fused import fused_function


def narrowed_convolution(
    to: int = TensorProto.INT8, channels: int = 8, *, is_limited: bool = True
) -> onnx.ModelProto:
    """A convolution followed by a narrowing cast, of values that are limited to those of int8."""
    weight = np.random.default_rng(5).uniform(-0.5, 0.5, (channels, 4, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["convolved"], pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["convolved", "least", "most"], ["limited"]),
        helper.make_node("Cast", ["limited" if is_limited else "convolved"], ["y"], to=to),
    ]
    if not is_limited:
        del nodes[1]
    limits = {"least": -128.0, "most": 127.0}
    graph = helper.make_graph(
        nodes,
        "narrowed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 10, 10])],
        [helper.make_tensor_value_info("y", to, [1, channels, 10, 10])],
        [
            numpy_helper.from_array(weight, "w"),
            *(numpy_helper.from_array(np.float32(each), name) for name, each in limits.items()),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def whole(model: onnx.ModelProto, toolchain: Toolchain) -> CandidateKernel:
    """The only kernel of a model that is one kernel."""
    graph = from_onnx(model)
    return CandidateKernel(graph, SubGraph(graph.calls), toolchain)


def record_of(candidate: CandidateKernel, factor: int = 2) -> Record:
    """A schedule for a convolution: its rows in groups of `factor`, its columns as vectors."""
    function = fused_function(candidate, Tvm())
    schedule = s_tir.Schedule(module_of(function))
    block = schedule.get_sblock("conv2d_nchw")
    _, _, rows, columns, *reduced = schedule.get_loops(block)
    outer, inner = schedule.split(rows, [None, factor])
    schedule.reorder(outer, *reduced, inner, columns)
    schedule.vectorize(columns)
    schedule.decompose_reduction(block, reduced[0])
    place = place_of(function, kernel_target(candidate.toolchain))
    return Record(place, trace_text(schedule.trace))


def keep(
    records: Records, candidate: CandidateKernel, found: Record, seconds: float = 1e-6
) -> None:
    """Keep a schedule of a kernel that takes so long, and one that failed."""
    label = label_of(candidate)
    failed = Record(found.place, "[[], []]")
    records.add(
        [
            Trial(failed, label, "a processor", Infeasible("crashed (SIGSEGV)")),
            Trial(found, label, "a processor", seconds),
        ]
    )
