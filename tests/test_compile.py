"""Models from ONNX to an executable, with backends that work and with some that do not."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import collage_dsl as collage
from collage_dsl.cost import CostStore, Infeasible
from collage_dsl.engine.compile import backends_of
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import Toolchain
from collage_dsl.realization.cost import MeasuredCost
from collage_dsl.realization.executable import ExecutableError
from collage_dsl.realization.verify import VerificationError, relative_error, run_onnx
from collage_dsl.rules import FusionSpec, OpCallByKind
from tests.faulty_backends import Crashing, Hanging, Refusing, Wrong
from tests.models import small_convolution

NATIVE = FusionSpec(Toolchain("tvm"), OpCallByKind())
LIBRARY = FusionSpec(
    Toolchain("onnxruntime", compiler="onnxruntime"), OpCallByKind(), coalesce=True
)


def faulty(name: str) -> FusionSpec:
    return FusionSpec(Toolchain(name, compiler=name), OpCallByKind())


def random_input(seed: int = 3) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {"x": generator.normal(size=(1, 3, 12, 12)).astype(np.float32)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store") / "costs.sqlite"


@pytest.fixture(scope="module")
def compiled(store: Path) -> collage.Compiled:
    return collage.compile(small_convolution(), [NATIVE, LIBRARY], store=store, race_seconds=0.05)


def test_the_executable_computes_what_onnxruntime_does(compiled: collage.Compiled) -> None:
    expected = run_onnx(small_convolution(), random_input())

    actual = compiled.run(random_input())

    assert actual.keys() == {"y"}
    assert relative_error(actual["y"], expected["y"]) < 1e-5


def test_the_report_has_the_mixed_plan_and_each_target_alone(compiled: collage.Compiled) -> None:
    report = compiled.report
    by_name = {contender.name: contender for contender in report.contenders}

    assert list(by_name) == ["mixed", "tvm", "onnxruntime"]
    assert by_name["onnxruntime"].targets["onnxruntime"].kernels == 1
    fastest = min(c.measured.seconds for c in report.contenders if c.measured)
    assert by_name[report.chosen].measured is not None
    assert by_name[report.chosen].measured.seconds == fastest
    assert report.verification is not None
    assert report.verification.passed


def test_a_second_compilation_measures_nothing(compiled: collage.Compiled, store: Path) -> None:
    again = collage.compile(small_convolution(), [NATIVE, LIBRARY], store=store, race_seconds=0.05)

    assert compiled.report.measurements.measured > 0
    assert again.report.measurements.measured == 0
    assert again.report.measurements.reused == again.report.measurements.found


def test_weights_of_the_same_shape_share_their_costs(
    compiled: collage.Compiled, store: Path
) -> None:
    other = small_convolution()
    weight = other.graph.initializer[0]
    weight.raw_data = (2 * np.frombuffer(weight.raw_data, np.float32)).tobytes()

    again = collage.compile(other, [NATIVE, LIBRARY], store=store, race_seconds=0.05)

    assert again.report.measurements.measured == 0


def test_plain_tvm_loads_what_was_saved_in_a_fresh_process(
    compiled: collage.Compiled, tmp_path: Path
) -> None:
    compiled.save(tmp_path / "out")
    np.save(tmp_path / "x.npy", random_input()["x"])
    program = f"""
import numpy as np, tvm
from tvm import relax
library = tvm.runtime.load_module({str(tmp_path / "out" / "model.so")!r})
machine = relax.VirtualMachine(library, tvm.cpu())
y = machine["main"](tvm.runtime.tensor(np.load({str(tmp_path / "x.npy")!r})))
np.save({str(tmp_path / "y.npy")!r}, y.numpy())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert relative_error(np.load(tmp_path / "y.npy"), compiled.run(random_input())["y"]) < 1e-6


def test_a_saved_folder_is_replaced_but_no_other(
    compiled: collage.Compiled, tmp_path: Path
) -> None:
    compiled.save(tmp_path / "out")
    compiled.save(tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "model.so",
        "plan.json",
        "report.json",
        "signature.json",
    ]

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ExecutableError, match="is not empty and holds no compiled model"):
        compiled.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "out"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "input `x` is missing"),
        ({"x": np.ones((1, 3, 12, 12)), "z": np.ones(1)}, "the model has no input `z`"),
        ({"x": np.ones((1, 3, 12, 12))}, r"input `x` is float64\[1, 3, 12, 12\]"),
        ({"x": np.ones((1, 3, 9, 9), np.float32)}, r"the model takes float32\[1, 3, 12, 12\]"),
    ],
)
def test_wrong_inputs_are_refused(
    compiled: collage.Compiled, inputs: dict[str, np.ndarray], said: str
) -> None:
    with pytest.raises(ExecutableError, match=said):
        compiled.run(inputs)


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (Crashing(), "crashed (SIGSEGV)"),
        (Hanging(), "took longer than 5 s"),
        (Refusing(), "this library has no such kernel"),
    ],
    ids=["crashing", "hanging", "refusing"],
)
def test_a_backend_that_fails_makes_only_that_kernel_infeasible(
    tmp_path: Path, backend: Crashing | Hanging | Refusing, reason: str
) -> None:
    graph = from_onnx(small_convolution())
    spec = faulty(backend.name)
    found = collage.propose(graph, spec, NATIVE)
    with (
        CostStore(tmp_path / "costs.sqlite") as store,
        MeasuredCost(backends_of([spec, NATIVE], [backend]), store, timeout=5) as cost,
    ):
        costs = {(c.target, c.label): cost(c) for c in found}
        plan = collage.choose(graph, found, cost=cost)

    assert costs[backend.name, "nn.relu"] == Infeasible(reason)
    assert isinstance(costs[backend.name, "nn.softmax"], float)
    assert [k.target for k in plan.kernels if k.label == "nn.relu"] == ["tvm"]


def test_a_backend_that_computes_wrong_is_caught_and_its_kernel_named(tmp_path: Path) -> None:
    with pytest.raises(VerificationError) as caught:
        collage.compile(
            small_convolution(),
            [faulty("wrong")],
            backends=[Wrong()],
            store=tmp_path / "costs.sqlite",
            race_seconds=0.05,
        )

    assert "wrong: `wrong` nn.relu at `relu`" in str(caught.value)
    assert caught.value.verification.error > caught.value.verification.tolerance


def test_a_node_that_no_target_takes_is_named_with_the_reason_of_each(tmp_path: Path) -> None:
    refusing = faulty("refusing")
    with pytest.raises(collage.UncoveredError) as caught:
        collage.compile(
            small_convolution(),
            [refusing],
            backends=[Refusing()],
            store=tmp_path / "costs.sqlite",
        )

    assert str(caught.value) == (
        "no target has a kernel for `relu`\n"
        "  `relu` (nn.relu):\n"
        "    target refusing: nn.relu: this library has no such kernel"
    )
