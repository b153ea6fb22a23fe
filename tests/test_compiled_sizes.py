"""Models that were compiled for several sizes: one executable, which chooses by what comes in."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.engine.sizes import parts_of
from collage_dsl.frontend.arrays import SharedConstants
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Toolchain
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.entry import prepared_weights
from collage_dsl.realization.exchange import check_sizes
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.partition import realized_together
from collage_dsl.realization.saving import load_executable
from collage_dsl.realization.signature import ExecutableError, InputError, Signature, Value
from collage_dsl.rules import FusionSpec, OpCallByKind
from tests.commands import said
from tests.models import small_convolution
from tests.reference import run_onnx
from tests.variant_backend import Varied

Array = np.ndarray[Any, Any]

CHANNELS = 64


def model() -> onnx.ModelProto:
    """A convolution, and a matrix product with a table of which each row is computed anew."""
    made = parse_model(
        """
        <ir_version: 8, opset_import: ["" : 18]>
        net (float[n, 3, 12, w] x, float[n, 8] y) => (float[n, 64] z) {
            c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, kernel)
            r = Relu(c)
            p = GlobalAveragePool(r)
            f = Flatten(p)
            t = Exp(table)
            m = MatMul(y, t)
            z = Add(f, m)
        }
        """
    )
    generator = np.random.default_rng(0)
    for name, shape in {"kernel": (CHANNELS, 3, 3, 3), "table": (8, CHANNELS)}.items():
        array = generator.normal(size=shape).astype(np.float32) / 4
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def inputs(n: int, w: int, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    shapes = {"x": (n, 3, 12, w), "y": (n, 8)}
    return {name: generator.normal(size=s).astype(np.float32) for name, s in shapes.items()}


def price(kernel: CandidateKernel) -> float:
    """The library is cheaper for an image of width 5, our own kernels otherwise."""
    widths = {d for node in kernel.graph.nodes for d in getattr(node.type, "shape", None) or ()}
    is_library = kernel.target == "onnxruntime"
    return 1e-6 if is_library == (5 in widths) else 1e-5


SIZES = {"n": (1, 4), "w": (5, 12)}


@pytest.fixture(scope="module")
def compiled() -> collage.Compiled:
    return collage.compile(
        model(), ["native", "onnxruntime"], cost=price, sizes=SIZES, race_seconds=0.01
    )


@pytest.fixture(scope="module")
def folder(compiled: collage.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "out"
    compiled.save(path)
    return path


EVERY = [(1, 5), (1, 12), (4, 5), (4, 12), (2, 5), (4, 7), (3, 9)]
"""Sizes that the model was compiled for, and others."""


@pytest.mark.parametrize(("n", "w"), EVERY)
def test_each_size_is_computed_as_onnxruntime_does(
    compiled: collage.Compiled, folder: Path, n: int, w: int
) -> None:
    expected = run_onnx(model(), inputs(n, w))["z"]

    for executable in (compiled, load_executable(folder)):
        assert relative_error(executable.run(inputs(n, w))["z"], expected) < 1e-5


def test_what_runs_is_what_was_compiled_for_the_size(
    compiled: collage.Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[int | str, ...] | None] = []
    real = ModelExecutable._taken

    def recorded(self: ModelExecutable, *given: Any) -> Any:
        ran.append(self.signature.inputs[0].shape)
        return real(self, *given)

    monkeypatch.setattr(ModelExecutable, "_taken", recorded)
    for n, w in EVERY:
        compiled.run(inputs(n, w))

    free = ("n", 3, 12, "w")
    assert ran == [(n, 3, 12, w) if n in (1, 4) and w in (5, 12) else free for n, w in EVERY]


def test_the_report_has_the_race_at_each_size(compiled: collage.Compiled) -> None:
    sizes = compiled.report.sizes

    assert [each.sizes for each in sizes] == [
        {"n": n, "w": w} for n in SIZES["n"] for w in SIZES["w"]
    ]
    assert all(each.verification and each.verification.passed for each in sizes)
    for each in sizes:
        planned = {kernel.target for contender in each.contenders for kernel in each.plan.kernels}
        assert planned <= {"tvm", "onnxruntime"}
        alone = [contender.name for contender in each.contenders if contender.alone]
        assert alone == ["tvm", "onnxruntime"]
        assert each.contenders[0].name == "mixed"


def test_a_saved_model_is_loaded_in_a_fresh_process(folder: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **inputs(4, 5))
    code = (
        "import sys, numpy as np, collage_dsl\n"
        "exe = collage_dsl.load_executable(sys.argv[1])\n"
        "np.savez(sys.argv[3], **exe.run(dict(np.load(sys.argv[2]))))\n"
    )
    paths = [str(folder), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]

    subprocess.run([sys.executable, "-c", code, *paths], check=True)

    found = np.load(tmp_path / "out.npz")["z"]
    assert relative_error(found, run_onnx(model(), inputs(4, 5))["z"]) < 1e-5


# ---- What is shared ----


def parts(spec: FusionSpec, shared: SharedConstants, *sizes: Mapping[str, int]) -> list[Any]:
    graphs = [from_onnx(model(), shared=shared)]
    for each in sizes:
        shapes = {"x": (each["n"], 3, 12, each["w"]), "y": (each["n"], 8)}
        graphs.append(from_onnx(model(), shapes=shapes, shared=shared))
    return [(graph, list(spec.candidates(graph))) for graph in graphs]


def test_kernels_that_are_the_same_at_two_sizes_are_one_function() -> None:
    spec = FusionSpec(Toolchain("tvm"), OpCallByKind())
    found = parts(spec, SharedConstants(), {"n": 1, "w": 5}, {"n": 1, "w": 12})

    module, calls = realized_together(found, lambda _: Varied())

    names = [{call.candidate.label: call.name for call in each} for each in calls]
    assert names[1]["matmul"] == names[2]["matmul"] != names[0]["matmul"]
    assert names[1]["nn.conv2d"] != names[2]["nn.conv2d"]
    functions = {str(var.name_hint) for var, _ in module.functions_items()}
    assert {"main", "main_1", "main_2"} <= functions


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
def test_a_saved_model_has_its_weights_once(target: str, tmp_path: Path) -> None:
    made = small_convolution(8192)
    dims = made.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_param, dims[2].dim_value, dims[3].dim_value = "n", 4, 4
    made.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    weight = sum(numpy_helper.to_array(each).nbytes for each in made.graph.initializer)
    sizes = []
    for number, wanted in enumerate(({}, {"n": (1, 2)})):
        found = collage.compile(
            made, [target], cost=lambda _: 1e-6, sizes=wanted, plans=1, race_seconds=0.01
        )
        found.save(tmp_path / str(number))
        sizes.append((tmp_path / str(number) / "model.so").stat().st_size)

    assert weight < sizes[0] < 1.9 * weight
    assert sizes[1] - sizes[0] < weight / 2


def test_entries_share_what_is_prepared_of_the_same_weight() -> None:
    toolchain = Toolchain("varied", compiler="varied")
    direct, halved = (
        FusionSpec(replace(toolchain, variants=names), OpCallByKind())
        for names in (("direct",), ("halved", "direct"))
    )
    shared = SharedConstants()
    graphs = [
        from_onnx(small_convolution(), shapes={"x": (n, 3, 12, 12)}, shared=shared)
        for n in ("n", 1, 4)
    ]
    specs = (direct, halved, halved)
    found = [(g, list(spec.candidates(g))) for g, spec in zip(graphs, specs, strict=True)]
    module, _ = realized_together(found, lambda _: Varied())
    signature = Signature.of(graphs[0])
    for graph, n in zip(graphs[1:], (1, 4), strict=True):
        signature = signature.with_sizes({"n": n}, Signature.of(graph))

    from tvm import cpu, relax

    from collage_dsl.realization.lower import build

    executable = build(module, backends=[Varied()])
    weights = prepared_weights(relax.VirtualMachine(executable, cpu()))
    addresses = [[each.data_ptr() for each in entry] for entry in weights]
    assert addresses[0] == []
    assert addresses[1] == addresses[2] != []
    run = ModelExecutable(executable, signature).run
    for n in (1, 2, 4):
        x = np.random.default_rng(n).normal(size=(n, 3, 12, 12)).astype(np.float32)
        right = run_onnx(_free(small_convolution()), {"x": x})["y"]
        assert relative_error(run({"x": x})["y"], right) < 1e-5


def _free(made: onnx.ModelProto) -> onnx.ModelProto:
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    return made


# ---- Messages ----


def test_a_wrong_shape_names_the_input(compiled: collage.Compiled) -> None:
    wrong = {**inputs(1, 5), "y": np.ones((2, 8), np.float32)}
    with pytest.raises(ExecutableError) as caught:
        compiled.run(wrong)
    assert str(caught.value) == (
        "input `y` is float32[n, 8], and `n` is 1 in input `x`: its dimension 0 cannot be 2"
    )

    with pytest.raises(
        ExecutableError, match=r"input `x` is float32\[1, 3, 11, 5\], the model takes"
    ):
        compiled.run({**inputs(1, 5), "x": np.ones((1, 3, 11, 5), np.float32)})


def test_a_size_that_is_no_result_of_its_formula_is_refused() -> None:
    inputs = (Value("x", "float32", ("n",)), Value("u", "float32", ("2 * n",)))
    tensors = [np.ones(size, np.float32) for size in (2, 5)]

    with pytest.raises(InputError) as caught:
        check_sizes(Signature(inputs, ()), tensors)

    assert str(caught.value) == (
        "`n` of input `x` is 2, so `2 * n` of input `u` is 4: it cannot be 5"
    )


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"k": (1,)}, "no input has a dimension `k`; those with names are `n`, `w`"),
        ({"n": ()}, "the sizes of `n` are one or more whole numbers from 0, not ()"),
        ({"n": (-1, 1)}, "the sizes of `n` are one or more whole numbers from 0, not (-1, 1)"),
        ({"n": (1.5,)}, "the sizes of `n` are one or more whole numbers from 0, not (1.5,)"),
        ({"n": ["8"]}, "the sizes of `n` are one or more whole numbers from 0, not ['8']"),
        ({"n": (True,)}, "the sizes of `n` are one or more whole numbers from 0, not (True,)"),
        ({"n": range(1, 66)}, "65 combinations of sizes are asked for; at most 64 may be"),
    ],
)
def test_sizes_that_the_model_cannot_have_are_refused(sizes: Any, said: str) -> None:
    with pytest.raises(FrontendError) as caught:
        collage.compile(model(), ["native"], cost=price, sizes=sizes)
    assert str(caught.value) == said


def test_a_size_may_be_a_number_of_numpy() -> None:
    parts = parts_of(model(), None, {"n": (np.int64(2), 2, np.uint8(5))}, None)

    assert [part.sizes for part in parts] == [{}, {"n": 2}, {"n": 5}]


def test_the_commands_take_sizes(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "net.onnx")
    options = ["-t", "native", "--costs", "analytic", "-o", tmp_path / "out"]
    free = ["--shape", "x=n,3,12,12"]

    done = said("compile", tmp_path / "net.onnx", *options, *free, "--sizes", "n=2")

    assert done.code == 0, done.err
    assert "any size:" in done.out
    assert "n = 2:" in done.out
    ran = said("run", tmp_path / "out", "--sizes", "n=2", "--output-format", "json")
    assert json.loads(ran.out)["outputs"]["z"]["shape"] == [2, CHANNELS]
    refused = said("run", tmp_path / "out", "--sizes", "w=2")
    assert "no input has a dimension `w`; those with names are `n`" in refused.err
    twice = said("compile", tmp_path / "net.onnx", *options, "--sizes", "n=2", "--sizes", "n=3")
    assert "the sizes of `n` are given twice" in twice.err


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
def test_a_decoder_runs_with_an_empty_cache_too(target: str, tmp_path: Path) -> None:
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 17]>
        g (float[n,4] x, float[p,4] past) => (float[n,4] y, float[q,4] now) {
          now = Concat <axis = 0> (past, x)
          t = Transpose <perm = [1, 0]> (now)
          s = MatMul (x, t)
          w = Softmax (s)
          y = MatMul (w, now)
        }"""
    )
    made = collage.compile(
        model, [target], cost=lambda _: 1e-6, race_seconds=0.01, sizes={"p": (0,)}
    )
    made.save(tmp_path / "out")
    loaded = collage.load_executable(tmp_path / "out")
    generator = np.random.default_rng(0)
    past = np.zeros((0, 4), np.float32)

    for n in (3, 1, 1):
        x = generator.normal(size=(n, 4)).astype(np.float32)
        right = run_onnx(model, {"x": x, "past": past})
        for executable in (made, loaded):
            found = executable.run({"x": x, "past": past})
            np.testing.assert_allclose(found["y"], right["y"], rtol=1e-5, atol=1e-6)
        past = found["now"]
    assert past.shape == (5, 4)
