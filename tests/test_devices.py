"""Virtual devices: a candidate is on one of them, and its target is or refines the device's."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import collage_dsl as collage
from collage_dsl.engine.specs import aimed
from collage_dsl.frontend.devices import device_of
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.graph import Device, Form, Graph, Kind, Node, SubGraph, TensorType
from collage_dsl.rules import FusionSpec, Limits
from collage_dsl.targets.refine import may_run, options_of_target, refines
from tests.partitioned import assert_same_results
from tests.test_partition_pass import FUSED, array, callees, names, partitioned, price, spec

LLVM = {"kind": "llvm"}


@I.ir_module
class TwoCpus:
    I.module_global_infos(
        {"vdevice": [I.vdevice({"kind": "llvm"}, 0), I.vdevice({"kind": "llvm"}, 1)]}
    )

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            here = R.hint_on_device(x, tvm.cpu(0))
            a = R.exp(here)
            b = R.nn.relu(a)
            there = R.hint_on_device(b, tvm.cpu(1))
            c = R.exp(there)
            d = R.nn.relu(c)
            R.output(d)
        return d


@I.ir_module
class CpuAndFake:
    I.module_global_infos(
        {"vdevice": [I.vdevice({"kind": "llvm"}, 0), I.vdevice({"kind": "ext_dev"}, 0)]}
    )

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            here = R.hint_on_device(x, tvm.cpu(0))
            a = R.exp(here)
            b = R.nn.relu(a)
            there = R.hint_on_device(b, tvm.ext_dev(0))
            c = R.exp(there)
            d = R.nn.relu(c)
            R.output(d)
        return d


def realized(module: tvm.IRModule) -> tvm.IRModule:
    return relax.transform.RealizeVDevice()(module)


def called(module: tvm.IRModule) -> list[str]:
    return callees(module["main"].body.blocks[0])


# The pass.


@pytest.mark.parametrize("rules", [FUSED, "max_coalesce(op_call_by_kind())"])
def test_no_kernel_spans_two_devices(rules: str) -> None:
    result = partitioned(realized(TwoCpus), spec(rules))
    devices = [result[name].params[0].ty.vdevice for name in ("tvm_exp_relu", "tvm_exp_relu_2")]

    assert called(result) == ["tvm_exp_relu", "relax.to_vdevice", "tvm_exp_relu_2"]
    assert [device.vdevice_id for device in devices] == [0, 1]


def test_merging_after_the_search_does_not_span_two_devices_either() -> None:
    merging = spec("op_call_by_kind()", "limits { max_exits 9; taps true; } after max_coalesce();")
    result = partitioned(realized(TwoCpus), merging)

    assert called(result) == ["tvm_exp_relu", "relax.to_vdevice", "tvm_exp_relu_2"]


def test_what_is_on_a_device_that_no_target_is_for_is_left_alone() -> None:
    result = partitioned(realized(CpuAndFake), spec(FUSED))

    assert called(result) == ["tvm_exp_relu", "relax.to_vdevice", "relax.exp", "relax.nn.relu"]


def test_each_device_has_the_kernels_of_its_own_target() -> None:
    fake = collage.load(text=f"collage 1; target fake on ext_dev {{ rules {FUSED}; }}")["fake"]
    result = partitioned(realized(CpuAndFake), fake, spec(FUSED))

    assert called(result) == ["tvm_exp_relu", "relax.to_vdevice", "fake_exp_relu"]


def test_two_targets_for_one_type_of_device() -> None:
    """Of two processors of one type, each has its own target."""
    first, second = ({"kind": "llvm", "mcpu": mcpu} for mcpu in ("skylake-avx512", "znver4"))
    one, two = relax.VDevice(first), relax.VDevice(second)
    module = chain_on(one, two)
    targets = [
        collage.attach(options, spec(FUSED, name=name))
        for options, name in ((first, "intel"), (second, "amd"))
    ]

    result = collage.CollagePartition(targets, price)(module)

    relax.analysis.well_formed(result)
    assert called(result) == ["intel_exp_relu", "relax.to_vdevice", "amd_exp_relu"]


def test_a_target_of_another_processor_is_refused() -> None:
    module = chain_on(relax.VDevice({"kind": "llvm", "mcpu": "znver4"}), relax.VDevice(LLVM))

    result = partitioned(module, spec(FUSED))

    assert called(result) == ["relax.exp", "relax.nn.relu", "relax.to_vdevice", "tvm_exp_relu"]


def test_another_memory_of_a_device_ends_a_candidate() -> None:
    module = chain_on(relax.VDevice(LLVM, 0, "global"), relax.VDevice(LLVM, 0, "global.texture"))

    result = partitioned(module, spec(FUSED))

    assert called(result) == ["tvm_exp_relu", "relax.to_vdevice", "tvm_exp_relu_2"]


def test_targets_that_share_a_spec_propose_once_and_run_on_both_devices() -> None:
    first, second = ({"kind": "llvm", "mcpu": mcpu} for mcpu in ("skylake-avx512", "znver4"))
    shared = spec(FUSED)
    targets = [collage.attach(options, shared) for options in (first, second)]
    asked = []

    def cost(candidate: Any) -> Any:
        asked.append((candidate.graph, candidate.sub_graph))
        return price(candidate)

    result = collage.CollagePartition(targets, cost)(
        chain_on(relax.VDevice(first), relax.VDevice(second))
    )

    assert len(aimed(targets)) == 1
    assert called(result) == ["tvm_exp_relu", "relax.to_vdevice", "tvm_exp_relu_2"]
    assert len(asked) == len(set(asked)) == 6


def test_two_processors_may_both_have_the_native_spec() -> None:
    first, second = ({"kind": "llvm", "mcpu": mcpu} for mcpu in ("skylake-avx512", "znver4"))
    targets = [tvm.target.Target(options) for options in (first, second)]

    result = collage.CollagePartition(targets, price)(
        chain_on(relax.VDevice(first), relax.VDevice(second))
    )

    assert [each.spec.name for each in aimed(targets)] == ["tvm", "tvm_2"]
    assert called(result) == ["tvm_exp_relu", "relax.to_vdevice", "tvm_2_exp_relu"]


def chain_on(one: Any, other: Any) -> tvm.IRModule:
    """`exp` and `relu` on one device, then on the other."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32", vdevice=one))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(relax.op.nn.relu(builder.emit(relax.op.exp(x))))
            value = builder.emit(relax.op.to_vdevice(value, other))
            value = builder.emit(relax.op.exp(value))
            result = builder.emit_output(relax.op.nn.relu(value))
        builder.emit_func_output(result)
    module = builder.get()
    module.update_global_info("vdevice", [one, other])
    return module


def test_what_may_not_run_on_its_device_does_not_count_as_the_largest_region() -> None:
    module = chain_on(relax.VDevice({"kind": "ext_dev"}), relax.VDevice(LLVM))
    largest = spec(FUSED, "limits { max_regions 1; }")

    assert called(partitioned(module, largest)) == called(partitioned(module, spec(FUSED)))


def test_a_model_without_devices_is_as_it_was() -> None:
    graph = from_relax(realized(without_devices()))

    assert not graph.planned
    assert graph.devices(graph.calls) == frozenset()


def without_devices() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(result)
    return builder.get()


# Targets.


def target(**options: Any) -> Any:
    return options_of_target({"kind": "llvm", **options})


def test_a_target_refines_what_says_less_of_how_and_the_same_of_all_else() -> None:
    plain, other = target(), target(mcpu="znver4")
    compiled = target(**{"feature.compiler": "onnxruntime"})
    carrying = target(**{"feature.fusion_spec": "…"})

    assert refines(compiled, plain)
    assert refines(carrying, plain)
    assert not refines(plain, plain), "it says nothing more"
    assert not refines(compiled, compiled), "what is planned says how already"
    assert not refines(carrying, compiled)
    assert not refines(compiled, other), "of another processor"
    assert not refines(target(mcpu="znver4", **{"feature.compiler": "x"}), plain)
    assert refines(target(mcpu="znver4", **{"feature.compiler": "x"}), other)


def test_a_target_may_run_what_is_planned_for_itself() -> None:
    device = device_of(relax.TensorType((4,), "float32", vdevice=relax.VDevice(LLVM)))
    assert device is not None

    assert may_run(target(), device)
    assert may_run(options_of_target(spec(FUSED)), device)
    assert not may_run(options_of_target({"kind": "cuda"}), device)


# Graphs.


def graph_on(*devices: Device | None) -> Graph:
    """A chain of calls, each planned for one of `devices`."""
    type_ = TensorType("float32", (4,))
    nodes = [Node("x", Form.INPUT, type_)]
    nodes += [
        Node(f"n{i}", Form.CALL, type_, (i,), "exp", kind=Kind.ELEMENTWISE, device=device)
        for i, device in enumerate(devices)
    ]
    return Graph(nodes, [len(devices)])


def planned(number: int, **options: str) -> Device:
    target = relax.VDevice({"kind": "llvm", **options}, number)
    found = device_of(relax.TensorType((4,), "float32", vdevice=target))
    assert found is not None
    return found


A, B = planned(0), planned(1)


def rule_candidates(graph: Graph, rules: str) -> list[frozenset[str]]:
    found: FusionSpec = spec(rules, "limits { max_exits 9; taps true; }")
    return [candidate.nodes for candidate in collage.propose(graph, found)]


@pytest.mark.parametrize(
    "rules",
    [
        FUSED,
        "combine_by_primitives(op_call_by_kind(), using: [join_anything], max_splits: 1)",
        "max_coalesce(op_call_by_kind())",
        "vertical(op_call_by_kind())",
    ],
)
def test_no_rule_proposes_what_spans_devices(rules: str) -> None:
    graph = graph_on(A, A, None, B, B)
    found = rule_candidates(graph, rules)

    assert max(map(len, found)) == 3
    for names_ in found:
        assert len(graph.devices(graph.set_of(*names_))) < 2


def test_what_is_proposed_may_run_on_its_device() -> None:
    graph = graph_on(A, planned(0, mcpu="znver4"), None)

    assert rule_candidates(graph, "op_call_by_kind()") == [{"n0"}, {"n2"}]
    elsewhere = planned(0, mcpu="znver4")
    found = collage.propose(
        graph_on(elsewhere, elsewhere, A), spec(FUSED, "limits { max_regions 1; }")
    )
    assert [candidate.nodes for candidate in found] == [{"n2"}]


def test_limits_say_that_a_sub_graph_spans_devices() -> None:
    graph = graph_on(A, None, B)

    assert Limits().refusal(graph, SubGraph(graph.calls)) == "spans several devices"
    assert Limits().refusal(graph, SubGraph(graph.set_of("n0", "n1"))) == ""


def test_a_memory_of_a_device_is_a_device_of_its_own() -> None:
    texture = Device("{}", 0, "texture")
    graph = graph_on(A, texture)

    assert graph.devices(graph.calls) == {A, texture}
    assert not graph.is_together(graph.calls)


def test_what_is_computed_on_devices_stays_the_same() -> None:
    result = partitioned(realized(TwoCpus), spec(FUSED))

    assert names(result) == {"main", "tvm_exp_relu", "tvm_exp_relu_2"}
    cpus = [tvm.cpu(0), tvm.cpu(1)]
    assert_same_results(result, realized(TwoCpus), array(4), devices=cpus)
