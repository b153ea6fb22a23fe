"""Models from ONNX to an executable, with backends that work and with some that do not."""

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.tvm import Tvm
from collage_dsl.builder import op_predicate
from collage_dsl.cost import Cost, CostStore, Infeasible, SourceError
from collage_dsl.engine import race
from collage_dsl.engine.compile import backends_of
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, Toolchain, members
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.key import context_of
from collage_dsl.measuring.overheads import MeasuringError
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import ExecutableError, Signature
from collage_dsl.realization.verification import VerificationError
from collage_dsl.rules import FusionSpec, OpCallByKind
from collage_dsl.search import NoReporter, SearchRecord
from collage_dsl.targets.attach import TargetError
from tests.cases import slow
from tests.faulty_backends import Crashing, Faulty, Hanging, Lacking, Refusing, Wrong
from tests.models import small_convolution
from tests.reference import run_onnx

NATIVE = FusionSpec(Toolchain("tvm"), OpCallByKind())
LIBRARY = FusionSpec(
    Toolchain("onnxruntime", compiler="onnxruntime"), OpCallByKind(), coalesce=True
)


@dataclass(frozen=True, slots=True)
class Mine(Faulty):
    """A backend of a caller's own that works, and says that it supports all but a relu."""

    on: str = "no operator"

    def supports(self, graph: Graph) -> str | None:
        return "it is a relu" if "nn.relu" in graph.operators(graph.calls) else None


def of_two_kernels() -> onnx.ModelProto:
    """For tests of what becomes of a relu that fails."""
    return parse_model(
        """<ir_version: 8, opset_import: ["": 17]> two (float[4, 8] x) => (float[4, 8] y) {
          relu = Relu (x)  y = Softmax (relu)
        }"""
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mcpu": "haswel"}, r"no processor `haswel` for \S+ \(did you mean `haswell`\?\)"),
        ({"mcpu": "native"}, r"no processor `native` .*without the option `mcpu`, code is for"),
        ({"mattr": ("avx2",)}, r"write `\+avx2` or `-avx2`"),
        ({"mcpu": "bdver2"}, r"`bdver2`, with .* does not have \(.*fma4.*\).* use `collage plan`"),
        ({"mattr": ("+fma4",)}, r"does not have \(fma4"),
        ({"mtriple": "s390x-linux-gnu"}, r"for s390x, and this machine is a "),
    ],
)
def test_code_that_does_not_run_here_is_not_compiled(options: dict[str, Any], said: str) -> None:
    """Only processors of AMD of the years 2011 to 2016, such as `bdver2`, have `fma4`."""
    spec = FusionSpec(Toolchain("t", options=options), OpCallByKind())

    with pytest.raises(TargetError, match=said):
        collage.compile(small_convolution(), [spec], cost=lambda _: 1e-6)


def test_a_kernel_for_another_processor_crashes_alone(tmp_path: Path) -> None:
    spec = FusionSpec(Toolchain("t", options={"mcpu": "bdver2"}), OpCallByKind())
    graph = from_onnx(small_convolution())
    (conv,) = (each for each in collage.propose(graph, spec) if each.label == "nn.conv2d")

    with MeasuredCost(backends_of([spec]), CostStore(tmp_path / "costs.sqlite")) as cost:
        found = cost(conv)

    assert isinstance(found, Infeasible)
    assert "SIGILL: an instruction that this processor does not have" in found.reason


def test_the_report_has_the_mixed_plan_and_each_target_alone(compiled: collage.Compiled) -> None:
    report = compiled.report
    by_name = {contender.name: contender for contender in report.contenders}

    assert [name for name, each in by_name.items() if each.alone] == ["tvm", "onnxruntime"]
    assert next(iter(by_name)) == "mixed"
    assert list(by_name)[1:-2] == [f"mixed {rank}" for rank in range(2, len(by_name) - 1)]
    assert by_name["onnxruntime"].targets["onnxruntime"].kernels == 1
    assert by_name[report.chosen].tied, "with the fastest"
    fastest = min(report.contenders, key=lambda c: c.measured.seconds if c.measured else 1.0)
    assert fastest.tied
    tied = [c.estimated for c in report.contenders if c.tied]
    assert by_name[report.chosen].estimated == min(tied)
    for each in report.contenders:
        assert each.measured is not None
        assert each.interval is not None
        assert each.interval[0] <= each.measured.seconds <= each.interval[1]
        assert each.error == pytest.approx(each.estimated / each.measured.seconds - 1)
    assert report.verification is not None
    assert report.verification.passed


def test_plans_of_the_same_kernels_are_built_and_raced_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[str] = []
    real = race.build

    def recorded(module: object, **given: object) -> object:
        built.append(str(module))
        return real(module, **given)

    monkeypatch.setattr(race, "build", recorded)

    def cost(candidate: CandidateKernel) -> float:
        return 1e-6 if candidate.toolchain.name == "tvm" else 1e-3

    found = collage.compile(small_convolution(), [NATIVE, LIBRARY], cost=cost, race_seconds=0.01)

    mixed, native, _ = found.report.contenders
    assert mixed.targets == native.targets
    assert mixed.measured == native.measured
    assert found.report.chosen in ("mixed", "onnxruntime")
    assert len(built) == 2, "one for `mixed` and `tvm`, one for `onnxruntime`"


@pytest.mark.parametrize("plans", [1, 2])
def test_as_many_plans_over_all_targets_are_raced_as_are_wanted(plans: int) -> None:
    def cost(candidate: CandidateKernel) -> float:
        return (1.0e-6 if candidate.target == "tvm" else 1.1e-6) * len(candidate.nodes)

    found = collage.compile(
        small_convolution(), [NATIVE, LIBRARY], cost=cost, race_seconds=0.01, plans=plans
    )

    mixed = [each for each in found.report.contenders if not each.alone]
    assert [each.name for each in mixed] == ["mixed", "mixed 2"][:plans]
    estimates = [each.estimated or 0.0 for each in mixed]
    assert estimates == sorted(estimates)
    assert all(each.measured for each in mixed)


@pytest.mark.parametrize(
    "target",
    [
        FusionSpec(Toolchain("mine", compiler="mine"), op_predicate("mine")),
        {"kind": "llvm", "feature.compiler": "mine"},
    ],
)
def test_a_backend_given_to_compile_is_asked_by_predicates(target: object) -> None:
    compiled = collage.compile(
        small_convolution(),
        [NATIVE, target],
        backends=[Mine()],
        cost=lambda candidate: 1e-6 if candidate.toolchain.name == "mine" else 1e-3,
        race_seconds=0.01,
    )

    mixed, _, alone = compiled.report.contenders
    assert set(mixed.targets) == {"mine", "tvm"}
    assert mixed.targets["tvm"].kernels == 1  # the relu
    assert alone.reason == "no target has a kernel for `relu`"


class Ends(NoReporter):
    """Keeps the record of each search."""

    def __init__(self) -> None:
        self.records: list[SearchRecord] = []

    def ended(self, record: SearchRecord) -> None:
        self.records.append(record)


def test_the_search_for_each_plan_is_reported() -> None:
    heard = Ends()
    compiled = collage.compile(
        small_convolution(),
        [NATIVE, LIBRARY],
        cost=lambda candidate: 1e-5,
        race_seconds=0.01,
        reporter=heard,
    )
    search = compiled.report.plan.search

    assert len(heard.records) == 3
    assert compiled.plan.record in heard.records
    assert search is not None
    assert (search.states, search.priced, search.candidates) in [
        (record.states, record.priced, record.candidates) for record in heard.records
    ]


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

    (tmp_path / "out" / "notes.txt").write_text("precious")
    with pytest.raises(ExecutableError, match=r"holds `notes\.txt` too, which would be lost"):
        compiled.save(tmp_path / "out")
    assert (tmp_path / "out" / "notes.txt").read_text() == "precious"

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
        slow(Hanging(), "took longer than 5 s"),
        (
            Refusing(),
            "`refusing` cannot make kernel `kernel`: RuntimeError: this library has no such kernel",
        ),
    ],
    ids=["crashing", "hanging", "refusing"],
)
def test_a_backend_that_fails_makes_only_that_kernel_infeasible(
    tmp_path: Path, backend: Crashing | Hanging | Refusing, reason: str
) -> None:
    graph = from_onnx(of_two_kernels())
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


def test_a_kernel_that_computes_wrong_has_no_cost(tmp_path: Path) -> None:
    with pytest.raises(collage.UncoveredError, match="relu: its results differ from those of"):
        collage.compile(
            of_two_kernels(),
            [faulty("wrong")],
            backends=[Wrong()],
            store=tmp_path / "costs.sqlite",
        )


def test_a_backend_that_computes_wrong_is_caught_and_its_kernel_named() -> None:
    with pytest.raises(VerificationError) as caught:
        collage.compile(
            small_convolution(),
            [faulty("wrong")],
            backends=[Wrong()],
            cost=lambda _: 1e-6,
            race_seconds=0.05,
        )

    first, second, *_, last = str(caught.value).splitlines()
    assert first == "1 of 8 kernels differs from onnxruntime"
    assert second.startswith("  nn.relu of target `wrong`, nodes relu: `relu` differs by ")
    assert last.startswith("help: compile without target `wrong`")
    assert caught.value.verification is not None
    assert caught.value.verification.error > caught.value.verification.tolerance


def test_a_node_that_no_target_takes_is_named_with_the_reason_of_each(tmp_path: Path) -> None:
    refusing = faulty("refusing")
    with pytest.raises(collage.UncoveredError) as caught:
        collage.compile(
            of_two_kernels(),
            [refusing],
            backends=[Refusing()],
            store=tmp_path / "costs.sqlite",
        )

    assert str(caught.value) == (
        "no target has a kernel for `relu`\n"
        "  `relu` (nn.relu):\n"
        "    target refusing: nn.relu: `refusing` cannot make kernel `kernel`: "
        "RuntimeError: this library has no such kernel"
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "no target is given"),
        (["a", "b", "a"], "two of the targets are named `a`"),
        (["mixed"], "a target cannot be named `mixed`"),
    ],
)
def test_targets_need_names_that_tell_them_apart(names: list[str], said: str) -> None:
    specs = [FusionSpec(Toolchain(name), OpCallByKind()) for name in names]

    with pytest.raises(TargetError, match=said):
        collage.compile(small_convolution(), specs)


def test_a_link_to_a_folder_stays_a_link(compiled: collage.Compiled, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    compiled.save(tmp_path / "link")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "model.so").exists()


def test_the_current_folder_is_not_replaced(
    compiled: collage.Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ExecutableError, match="it is the current folder"):
        compiled.save(".")


def cost_with(store: CostStore, backend: LibraryBackend, timeout: float = 60) -> Cost:
    """The cost of the relu of the small model for `backend`."""
    graph = from_onnx(of_two_kernels())
    spec = faulty(backend.name)
    with MeasuredCost(backends_of([spec], [backend]), store, timeout=timeout) as cost:
        return next(cost(c) for c in spec.candidates(graph) if c.label == "nn.relu")


def test_a_missing_compiler_ends_the_run_and_is_not_remembered_as_a_cost(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        with pytest.raises(MeasuringError, match=r"cannot measure kernels: no C\+\+ compiler"):
            cost_with(store, Lacking())
        lasting = len(store)

        assert lasting <= 3, "no more than the overheads of TVM itself, and the machine's speed"


def test_what_was_too_slow_for_one_time_limit_is_tried_again_with_another(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        assert cost_with(store, Hanging(), timeout=0.2) == Infeasible("took longer than 0.2 s")
        assert cost_with(store, Hanging(), timeout=0.5) == Infeasible("took longer than 0.5 s")


def test_entering_an_executable_is_measured_once_for_all_toolchains(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        for backend in (Wrong(), Crashing("add")):
            cost_with(store, backend)
        found = store.measurements([each.context.key for each in store.known()])
        labels = [each.label for each in found if each.kernel == "overhead.entry"]

    assert sorted(labels) == ["crashing", NATIVE.name, "wrong"]


def test_backends_with_other_settings_do_not_share_costs() -> None:
    contexts = {
        context_of(Toolchain("t", compiler="crashing"), backend)
        for backend in (Crashing("add"), Crashing("nn.relu"))
    }

    assert len(contexts) == 2


def test_two_targets_of_tvm_for_two_processors_are_built_each_for_its_own() -> None:
    graph = from_onnx(small_convolution())
    other = Toolchain("other", options={"mcpu": "x86-64"})
    first, *rest = [
        CandidateKernel(graph, SubGraph(1 << i), NATIVE.target) for i in members(graph.calls)
    ]
    chosen = [replace(first, toolchain=other), *rest]
    executable = build(realize(graph, chosen, lambda _: Tvm()))
    x = np.random.default_rng(5).normal(size=(1, 3, 12, 12)).astype(np.float32)

    (actual,) = ModelExecutable(executable, Signature.of(graph)).run({"x": x}).values()

    (expected,) = run_onnx(small_convolution(), {"x": x}).values()
    assert relative_error(actual, expected) < 1e-5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"plans": 0}, "at least 1 plan"),
        ({"refine": "quickly"}, "`refine` is 'evolutionary' or None, not 'quickly'"),
        ({"refine": "evolutionary", "budget": -1}, "`-1` is no time"),
        ({"refine": "evolutionary", "budget": float("nan")}, "`nan` is no time"),
        ({"timeout": float("nan"), "cost": "measured"}, "the time limit of a kernel"),
        ({"timeout": float("inf"), "cost": "measured"}, "the time limit of a kernel"),
        ({"race_seconds": float("nan")}, "`race_seconds` are above 0"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    given = {"cost": lambda kernel: 1e-6, "store": tmp_path / "costs.sqlite", **options}
    with pytest.raises(ValueError, match=said):
        collage.compile(small_convolution(), ["native"], **given)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"strategy": 5}, TypeError, "a strategy is a function or a name, not of type int"),
        ({"cost": 5}, SourceError, "a source of costs is a function.* not a value of type int"),
        ({"cost": [5]}, SourceError, "a source of costs is a function.* not a value of type int"),
    ],
)
def test_an_option_of_another_type_is_refused(
    options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        collage.compile(small_convolution(), ["native"], **options)


def test_a_target_of_another_type_is_refused() -> None:
    with pytest.raises(TargetError, match="a target is not of type int"):
        collage.compile(small_convolution(), [5])


@pytest.mark.parametrize("targets", ["native", Path("native.collage"), NATIVE, {"tvm": NATIVE}])
def test_targets_are_a_list(targets: Any) -> None:
    with pytest.raises(TargetError, match="given as a list"):
        collage.compile(small_convolution(), targets)
