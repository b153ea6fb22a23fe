"""Plans across devices: kernels on a fake one beside `llvm`, and the copies between the two."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import collage_dsl as collage
from collage_dsl.cost import CostStore
from collage_dsl.engine.compile import Compiled
from collage_dsl.engine.devices import DefaultDevice
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import searched
from collage_dsl.graph import Graph, Option
from collage_dsl.measuring.copies import CopyCost
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.realization.crossing import devices_of
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.link import linked
from collage_dsl.realization.lower import build, lowering
from collage_dsl.realization.saving import load_executable, save
from collage_dsl.realization.signature import ExecutableError, Signature
from collage_dsl.realization.verification import VerificationError
from collage_dsl.report.text import plan_text
from collage_dsl.search import Plan
from tests.fake_device import FakeLibrary, WithoutDevice, copied, load_device
from tests.models import small_convolution
from tests.reference import run_onnx
from tests.test_devices import CpuAndFake
from tests.test_partition_pass import callees

SPECS = collage.load(
    text="""
    collage 1;
    target native on llvm { rules op_call_by_kind(); }
    target fake on ext_dev { compiler "fake"; rules op_call_by_kind(); }
    """
)
NATIVE, FAKE = SPECS.values()
COPIES = collage.Copies(latency=1e-6, bandwidth=1e9)
LIBRARY = FakeLibrary()

ON_THE_FAKE_DEVICE = ("exp", "nn.relu", "sigmoid")


@pytest.fixture(scope="module", autouse=True)
def fake_device() -> None:
    load_device()


def cost(candidate: Any) -> float:
    """Some operators are much cheaper on the fake device, all others on the processor."""
    is_cheap = (candidate.target == "fake") == (candidate.label in ON_THE_FAKE_DEVICE)
    return 1e-5 if is_cheap else 1e-3


def chain(*operators: Any, shape: tuple[Any, ...] = (4, 8)) -> tvm.IRModule:
    """Operators one after the other, each of one operand or of the last and the first value."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value: Any = x
            for operator in operators:
                value = builder.emit(operator(value))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def crossing() -> tvm.IRModule:
    """tanh on one device, exp and relu on the other, then tanh and an addition of both."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.tanh(x))
            b = builder.emit(relax.op.exp(a))
            c = builder.emit(relax.op.nn.relu(b))
            d = builder.emit(relax.op.tanh(c))
            result = builder.emit_output(relax.op.add(d, a))
        builder.emit_func_output(result)
    return builder.get()


def partitioned(module: tvm.IRModule, *specs: Any, **options: Any) -> tvm.IRModule:
    options = {"copies": COPIES, "backends": [LIBRARY], **options}
    result = collage.CollagePartition(
        specs or (NATIVE, FAKE), options.pop("cost", cost), **options
    )(module)
    relax.analysis.well_formed(result)
    return result


def called(module: tvm.IRModule) -> list[str]:
    return callees(module["main"].body.blocks[0])


def run(module: tvm.IRModule, *arrays: Any) -> Any:
    """What `main` gives, on a VM that has the processor and the fake device."""
    target = tvm.target.Target({"kind": "llvm"})
    executable = tvm.compile(module, target, relax_pipeline=lowering([LIBRARY]))
    main = relax.VirtualMachine(executable, [tvm.cpu(), tvm.ext_dev(0)])["main"]
    return main(*map(tvm.runtime.tensor, arrays)).numpy()


def numbers(*shape: int) -> Any:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


# The fake device.


def test_a_kernel_of_the_fake_device_refuses_memory_of_the_processor() -> None:
    """Otherwise the tests below could not tell that a copy is missing."""
    module = partitioned(chain(relax.op.exp), FAKE)
    target = tvm.target.Target({"kind": "llvm"})
    executable = tvm.compile(module, target, relax_pipeline=lowering([LIBRARY]))

    on_device = relax.VirtualMachine(executable, tvm.ext_dev(0))["main"]
    on_processor = relax.VirtualMachine(executable, tvm.cpu())["main"]

    x = numbers(4, 8)
    given = on_device(tvm.runtime.tensor(x, tvm.ext_dev(0))).numpy()
    np.testing.assert_allclose(given, np.exp(x), rtol=1e-5)
    with pytest.raises(ValueError, match="is not in the memory of the device"):
        on_processor(tvm.runtime.tensor(x))


# The default device.


def test_calls_planned_for_no_device_are_on_that_of_the_first_target() -> None:
    module = chain(relax.op.exp, relax.op.tanh)

    assert called(partitioned(module, NATIVE, FAKE, copies=None)) == ["native_exp", "native_tanh"]
    assert called(partitioned(module, FAKE, NATIVE, copies=None)) == ["fake_exp", "fake_tanh"]


def test_inside_tvm_compile_they_are_on_that_of_its_target() -> None:
    seen = []

    def first_half(module: Any) -> Any:
        seen.append(partitioned(module, FAKE, NATIVE, copies=None))
        return lowering([LIBRARY])(seen[0])

    tvm.compile(chain(relax.op.exp), tvm.target.Target({"kind": "llvm"}), relax_pipeline=first_half)

    assert called(seen[0]) == ["native_exp"]


def test_in_a_module_with_virtual_devices_they_are_on_the_first_of_them() -> None:
    module = chain(relax.op.exp)
    module.update_global_info("vdevice", [relax.VDevice({"kind": "ext_dev"})])

    assert called(partitioned(module, NATIVE, FAKE, copies=None)) == ["fake_exp"]


def test_targets_of_two_kinds_may_share_a_device() -> None:
    c = collage.load(text="collage 1; target other on c { rules op_call_by_kind(); }")["other"]

    def on_c(candidate: Any) -> float:
        return 1.0 if candidate.target == "native" else 0.5

    assert called(partitioned(chain(relax.op.exp), NATIVE, c, cost=on_c, copies=None)) == [
        "other_exp"
    ]


def test_propose_leaves_out_targets_on_other_devices_than_the_first() -> None:
    graph = collage.from_relax(chain(relax.op.exp))

    assert {each.target for each in collage.propose(graph, NATIVE, FAKE)} == {"native"}
    assert {each.target for each in collage.propose(graph, FAKE, NATIVE)} == {"fake"}


def test_what_only_another_device_could_run_is_refused_with_the_reason() -> None:
    convolutions = collage.load(
        text="""
        collage 1;
        pattern only_conv(x, w) { y = nn.conv2d(x, w); yield y; }
        target native on llvm { rules dfpattern(only_conv); }
        """
    )["native"]

    with pytest.raises(collage.UncoveredError) as caught:
        collage.compile(small_convolution(), [convolutions, FAKE], cost=cost, backends=[LIBRARY])

    assert "target fake: it runs on the device of ext_dev" in str(caught.value)
    assert "no copies between devices are allowed" in str(caught.value)


# What copies cost.


def test_a_copy_takes_its_latency_and_the_time_of_its_bytes() -> None:
    assert collage.Copies(latency=1e-5, bandwidth=2e9)(4096) == pytest.approx(1e-5 + 2.048e-6)
    with pytest.raises(ValueError, match="0 seconds or more"):
        collage.Copies(latency=-1.0, bandwidth=1e9)
    with pytest.raises(ValueError, match="more than 0 bytes"):
        collage.Copies(latency=0.0, bandwidth=0.0)


def test_a_kernel_pays_for_what_it_takes_and_gives_but_not_for_its_weights() -> None:
    graph = collage.parse_graph("x: f32[4,8]; w = const f32[8,2]; y = matmul(x, w); return y;")
    (candidate,) = collage.propose(graph, FAKE)
    copying = CopyCost(COPIES, "llvm", lambda _: LIBRARY)

    assert copying(candidate) == pytest.approx(2e-6 + (4 * 8 + 4 * 2) * 4 / 1e9)
    assert CopyCost(COPIES, "ext_dev", lambda _: LIBRARY)(candidate) == 0


def test_a_copy_of_a_tensor_of_unknown_size_is_infeasible() -> None:
    graph = collage.from_relax(chain(relax.op.exp, shape=(tvm.tirx.Var("n", "int64"), 8)))
    (candidate,) = collage.propose(graph, FAKE)

    unknown = CopyCost(COPIES, "llvm", lambda _: LIBRARY)(candidate)
    known = CopyCost(COPIES, "llvm", lambda _: LIBRARY, {"n": 4})(candidate)

    assert unknown == collage.Infeasible("`x` is copied, and its size is not known")
    assert known == pytest.approx(2e-6 + 2 * 4 * 8 * 4 / 1e9)


def test_a_kernel_that_gains_less_than_its_copies_cost_stays_on_the_default_device() -> None:
    module = chain(relax.op.tanh, relax.op.exp, relax.op.tanh)
    dear = collage.Copies(latency=1e-3, bandwidth=1e9)

    assert "fake_exp" in called(partitioned(module))
    assert called(partitioned(module, copies=dear)) == ["native_tanh", "native_exp", "native_tanh"]


# What is run.


def test_copies_stand_where_a_plan_crosses_devices() -> None:
    module = crossing()
    x = numbers(4, 8)

    result = partitioned(module)
    before = copied()
    actual = run(result, x)
    after = copied()

    assert called(result) == [
        "native_tanh",
        "relax.to_vdevice",
        "fake_exp",
        "fake_relu",
        "relax.to_vdevice",
        "native_tanh",
        "native_add",
    ]
    a = np.tanh(x)
    np.testing.assert_allclose(actual, np.tanh(np.exp(a)) + a, rtol=1e-5)
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)


def test_a_pass_that_runs_again_changes_nothing() -> None:
    once = partitioned(crossing())

    assert partitioned(once).same_as(once)


def test_a_value_that_several_kernels_take_is_copied_once() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.tanh(x))
            b = builder.emit(relax.op.exp(a))
            c = builder.emit(relax.op.nn.relu(a))
            result = builder.emit_output(relax.op.add(b, c))
        builder.emit_func_output(result)
    array = numbers(4, 8)

    result = partitioned(builder.get())

    assert called(result).count("relax.to_vdevice") == 3
    a = np.tanh(array)
    np.testing.assert_allclose(run(result, array), np.exp(a) + np.maximum(a, 0), rtol=1e-5)


def test_what_no_kernel_covers_is_on_the_default_device() -> None:
    """Operators that are left alone take the copies, whose types say nothing of a device."""
    only_tanh = collage.load(
        text="""
        collage 1;
        pattern tanh_alone(x) { y = tanh(x); yield y; }
        target native on llvm { rules dfpattern(tanh_alone); }
        """
    )["native"]
    fake = collage.load(
        text="""
        collage 1;
        pattern exp_alone(x) { y = exp(x); yield y; }
        target fake on ext_dev { compiler "fake"; rules dfpattern(exp_alone); }
        """
    )["fake"]
    operators = (relax.op.exp, relax.op.negative, relax.op.tanh, relax.op.exp, relax.op.negative)
    x = numbers(4, 8)

    result = partitioned(chain(*operators), only_tanh, fake)

    assert called(result) == [
        *("relax.to_vdevice", "fake_exp", "relax.to_vdevice", "relax.negative", "native_tanh"),
        *("relax.to_vdevice", "fake_exp", "relax.to_vdevice", "relax.negative"),
    ]
    expected = -np.exp(np.tanh(-np.exp(x)))
    np.testing.assert_allclose(run(result, x), expected, rtol=1e-5)


def test_memory_of_one_device_is_not_used_again_for_the_other() -> None:
    """TVM's plan of memory would give a block of the fake device to a tensor of the processor."""
    on_fake = [relax.op.sigmoid, relax.op.nn.relu] * 4
    on_llvm = [relax.op.tanh, relax.op.negative] * 4
    x = numbers(4, 8)

    result = partitioned(chain(*on_fake, *on_llvm, *on_fake, *on_llvm))

    expected = x
    for _ in range(2):
        for _ in range(4):
            expected = 1 / (1 + np.exp(-expected))
        for _ in range(4):
            expected = -np.tanh(expected)
    np.testing.assert_allclose(run(result, x), expected, rtol=1e-4)


def test_kernels_with_tuples_and_symbolic_dimensions_cross_devices() -> None:
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(relax.op.split(x, 2, axis=1))
            left, right = builder.emit(parts[0]), builder.emit(parts[1])
            joined = builder.emit(relax.op.concat([right, left], axis=1))
            result = builder.emit_output(relax.op.tanh(joined))
        builder.emit_func_output(result)
    array = numbers(3, 8)

    def cost_of(candidate: Any) -> float:
        return 1e-5 if (candidate.target == "fake") == (candidate.label != "tanh") else 1e-3

    result = partitioned(builder.get(), cost=cost_of, sizes={"n": 3})

    expected = np.tanh(np.concatenate([array[:, 4:], array[:, :4]], axis=1))
    assert called(result) == [
        *("relax.to_vdevice", "fake_split", "fake_concat", "relax.to_vdevice", "native_tanh")
    ]
    np.testing.assert_allclose(run(result, array), expected, rtol=1e-5)


def test_a_module_that_is_planned_already_keeps_its_devices() -> None:
    x = numbers(4)

    result = partitioned(relax.transform.RealizeVDevice()(CpuAndFake))

    assert called(result) == [
        *("native_exp", "native_relu", "relax.to_vdevice", "fake_exp", "fake_relu"),
    ]
    np.testing.assert_allclose(run(result, x), np.exp(np.exp(x)), rtol=1e-5)


# Models.


def dear_products(candidate: Any) -> float:
    """Products are much cheaper on the fake device, all else on the processor."""
    is_product = any(op in candidate.label for op in ("conv2d", "matmul"))
    return 1e-5 if (candidate.target == "fake") == is_product else 1e-3


def compiled(*specs: Any, **options: Any) -> Compiled:
    given = {"cost": dear_products, "copies": COPIES, "backends": [LIBRARY], **options}
    targets = specs or (NATIVE, FAKE)
    return collage.compile(small_convolution(), targets, race_seconds=0.1, **given)


@pytest.fixture
def image() -> Any:
    return numbers(1, 3, 12, 12)


@pytest.fixture
def expected(image: Any) -> Any:
    (found,) = run_onnx(small_convolution(), {"x": image}).values()
    return found


def test_a_model_is_compiled_for_two_devices_and_for_each_alone(image: Any, expected: Any) -> None:
    found = compiled()

    names = {each.name for each in found.report.contenders if each.measured is not None}
    (actual,) = found.run({"x": image}).values()
    assert names == {"mixed", "native", "fake"}
    assert relative_error(actual, expected) < 1e-5


def test_a_model_for_two_devices_can_be_saved_and_loaded(
    tmp_path: Path, image: Any, expected: Any
) -> None:
    executable = mixed()

    save(executable, tmp_path / "model", {})
    loaded = load_executable(tmp_path / "model")

    before = copied()
    (actual,) = loaded.run({"x": image}).values()
    into, out = (a - b for a, b in zip(copied(), before, strict=True))
    assert loaded.signature.devices == ("cpu:0", "ext_dev:0")
    assert relative_error(actual, expected) < 1e-5
    assert into == out == 2, "around the convolution, and around the product"


def mixed() -> ModelExecutable:
    """The executable of the plan over both devices, whichever won the race."""
    graph = collage.from_onnx(small_convolution())
    found = searched(
        graph,
        [NATIVE, FAKE],
        CopyCost(COPIES, "llvm", lambda _: LIBRARY).added_to(dear_products),
        lookup(allow_extern=False),
        default=DefaultDevice("llvm", may_copy=True),
    ).plans["mixed"]
    assert isinstance(found, Plan)
    module = collage.realize(replace(found, home=NATIVE.target), backends=[LIBRARY])
    signature = Signature.of(graph, devices_of(module, "llvm"))
    return ModelExecutable(build(module, backends=[LIBRARY]), signature)


def test_a_plan_says_what_of_its_cost_goes_into_copies() -> None:
    document = compiled(FAKE).report.plan
    assert [kernel.copies for kernel in document.kernels] == [0.0] * len(document.kernels)

    only_products = collage.load(
        text="""
        collage 1;
        pattern convolution(x, w) { y = nn.conv2d(x, w); yield y; }
        target fake on ext_dev { compiler "fake"; rules dfpattern(convolution); }
        """
    )["fake"]
    without = collage.load(
        text="""
        collage 1;
        target native on llvm { rules op_call_by_kind(); }
        forbid op(nn.conv2d) on native;
        """
    )["native"]
    found = compiled(without, only_products)

    (kernel,) = [each for each in found.report.plan.kernels if each.copies]
    moved = (3 * 12 * 12 + 8 * 12 * 12) * 4
    assert kernel.label == "nn.conv2d"
    assert kernel.copies == pytest.approx(2 * COPIES.latency + moved / COPIES.bandwidth)
    assert kernel.cost == pytest.approx(1e-5 + kernel.copies)
    assert "for copies between devices" in plan_text(found.report.plan)
    assert found.plan.home == without.target
    assert (
        callees(collage.realize(found.plan)["main"].body.blocks[0]).count("relax.to_vdevice") == 2
    )


def test_a_model_may_be_on_another_device_as_a_whole(image: Any, expected: Any) -> None:
    found = compiled(FAKE, copies=None)

    (actual,) = found.run({"x": image}).values()
    assert found.executable.signature.devices == ("ext_dev:0",)
    assert relative_error(actual, expected) < 1e-5


def test_a_device_that_is_not_there_is_named() -> None:
    executable = mixed()
    signature = replace(executable.signature, devices=("cpu:0", "ext_dev:7"))

    with pytest.raises(ExecutableError, match="there is no device ext_dev:7 here"):
        ModelExecutable(executable.module, signature)


@dataclass(frozen=True, slots=True)
class WrongLibrary(FakeLibrary):
    """Computes another function than relu."""

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        nodes = [replace(n, op="abs") if n.op == "nn.relu" else n for n in graph.nodes]
        graph = Graph(nodes, graph.outputs, name=graph.name, returns_tuple=graph.returns_tuple)
        return super(WrongLibrary, self).codegen(graph, symbol, options)


def test_a_wrong_kernel_on_another_device_is_named() -> None:
    with pytest.raises(VerificationError) as caught:
        compiled(FAKE, copies=None, backends=[WrongLibrary()])

    assert caught.value.verification is not None
    assert [finding.node for finding in caught.value.verification.wrong] == ["relu"]


def test_kernels_on_two_devices_are_verified() -> None:
    verification = compiled().report.verification

    assert verification is not None
    assert verification.kernel is not None
    assert verification.kernels == 8
    assert verification.unchecked == []


# Measuring.


def test_a_kernel_is_measured_on_its_own_device(tmp_path: Path) -> None:
    graph = collage.from_relax(chain(relax.op.exp))
    (candidate,) = collage.propose(graph, FAKE)

    with (
        CostStore(tmp_path / "costs.sqlite") as store,
        MeasuredCost(lambda _: LIBRARY, store) as measured,
    ):
        seconds = measured(candidate)

    assert isinstance(seconds, float), seconds
    assert 0 < seconds < 1


def test_a_kernel_for_a_device_that_is_not_there_is_infeasible(tmp_path: Path) -> None:
    graph = collage.from_relax(chain(relax.op.exp))
    (candidate,) = collage.propose(graph, FAKE)

    with (
        CostStore(tmp_path / "costs.sqlite") as store,
        MeasuredCost(lambda _: WithoutDevice(), store) as measured,
    ):
        assert measured(candidate) == collage.Infeasible("there is no device ext_dev:0 here")


# Kernels that are linked to a library.


def test_a_module_with_linked_kernels_keeps_its_virtual_devices() -> None:
    linking = collage.load(
        text="""
        collage 1;
        pattern one_exp(x) { y = exp(x); yield y; }
        target native on llvm {
          rules combine_by_primitives(
            union(composite("onnxruntime.exp", dfpattern(one_exp)), op_call_by_kind()),
            using: [join_anything]
          );
        }
        """
    )["native"]
    toolchain = replace(linking.target, options={"libs": ("onnxruntime",)})

    def whole(candidate: Any) -> Any:
        composites = candidate.sub_graph.composites
        is_linked = composites and len(candidate.nodes) == 2
        return 1e-6 if is_linked else 1e-3

    spec = replace(linking, target=toolchain)
    module = partitioned(chain(relax.op.exp, relax.op.tanh), spec, cost=whole, copies=None)
    module.update_global_info("vdevice", [relax.VDevice({"kind": "llvm"})])

    assert not linked(module).same_as(module), "a kernel was linked"
    assert len(linked(module).global_infos["vdevice"]) == 1


# Several processors.


def test_two_targets_of_tvm_for_two_processors_run_together(
    tmp_path: Path, image: Any, expected: Any
) -> None:
    """Each kernel is compiled for the processor that it was chosen for, without a copy."""
    processors = [
        collage.load(
            text=f"""
            collage 1;
            target {name} on llvm(mcpu: {mcpu}) {{ rules op_call_by_kind(); }}
            """
        )[name]
        for name, mcpu in (("one", '"x86-64"'), ("two", '"x86-64-v2"'))
    ]

    def products_on_two(candidate: Any) -> float:
        is_product = any(op in candidate.label for op in ("conv2d", "matmul"))
        return 1e-6 if (candidate.target == "two") == is_product else 1e-3

    graph = collage.from_onnx(small_convolution())
    plan = collage.choose(graph, collage.propose(graph, *processors), cost=products_on_two)
    module = collage.realize(plan)
    executable = ModelExecutable(build(module), Signature.of(graph))
    save(executable, tmp_path / "model", {})
    loaded = load_executable(tmp_path / "model")
    found = collage.compile(small_convolution(), processors, cost=products_on_two, race_seconds=0.1)

    assert {kernel.target for kernel in plan.kernels} == {"one", "two"}
    assert not module.global_infos
    for each in (executable, loaded, found):
        (actual,) = each.run({"x": image}).values()
        assert relative_error(actual, expected) < 1e-5
