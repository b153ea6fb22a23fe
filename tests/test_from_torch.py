"""Programs that PyTorch exported. `pytest -m torch` runs these tests where PyTorch is installed."""

from typing import Any

import numpy as np
import pytest
import tvm

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch


def price(kernel: Any) -> float:
    return (1e-6 if kernel.target == "tvm" else 3e-6) + 1e-7 * len(kernel.nodes)


def exported(module: Any, *inputs: Any, **options: Any) -> Any:
    import torch

    return torch.export.export(module.eval(), inputs, **options)


def image_model() -> Any:
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.second = nn.Conv2d(8, 8, 3, bias=False)
            self.dense = nn.Linear(8, 5)
            self.drop = nn.Dropout()

        def forward(self, x: Any, y: Any) -> Any:
            a = self.norm(self.first(x)).relu()
            a = nn.functional.relu6(self.second(nn.functional.max_pool2d(a, 2)))
            a = nn.functional.adaptive_avg_pool2d(a, 1).flatten(1)
            z = self.drop(self.dense(a))
            return {"probabilities": z.softmax(-1), "total": z + y}

    return Net()


def encoder() -> Any:
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, i: Any) -> Any:
            return self.layer(self.embedding(i))

    return Encoder()


def recurrent() -> Any:
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(6, 4, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    return Recurrent()


def assert_as_in_pytorch(program: Any, executable: Any, inputs: dict[str, Any]) -> None:
    import torch

    with torch.no_grad():
        right = program.module()(*(torch.from_numpy(each) for each in inputs.values()))
    if not isinstance(right, tuple):
        right = list(right.values()) if isinstance(right, dict) else [right]
    found = executable.run(inputs)
    assert list(found) == list(program.graph_signature.user_outputs)
    for actual, expected in zip(found.values(), right, strict=True):
        np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-3, atol=1e-5)


def compiled(program: Any) -> Any:
    return collage.compile(
        program, targets=["native", "onnxruntime"], cost=[price], race_seconds=0.01
    )


def f32(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


@pytest.mark.torch
def test_an_image_model_has_the_canonical_form() -> None:
    import torch

    graph = collage.from_torch(exported(image_model(), torch.zeros(2, 3, 16, 16), torch.zeros(5)))

    assert [node.op for node in graph.nodes if node.is_call] == [
        *("nn.conv2d", "add", "nn.relu", "nn.max_pool2d", "nn.conv2d", "clip", "mean", "reshape"),
        *("matmul", "add", "nn.softmax", "add"),
    ]
    assert graph.names(graph.parameters) == {"x", "y"}
    assert graph.output_names == ("softmax", "add")
    assert all(graph.nodes[i].value is not None for i in range(len(graph)) if _is_weight(graph, i))


def _is_weight(graph: Any, index: int) -> bool:
    return bool(graph.constants >> index & 1)


@pytest.mark.torch
def test_the_plan_is_that_of_the_same_model_in_onnx() -> None:
    """Written by hand, since the exporter to ONNX needs a package of its own."""
    import onnx
    import torch
    from onnx import numpy_helper

    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
    )
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[1,3,8,8] x) => (float[1,8,3,3] y) {'
        "c = Conv (x, w, b) n = BatchNormalization (c, s, t, m, v) r = Relu (n)"
        "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) }"
    )
    names = zip("wbstmv", module.state_dict().values(), strict=False)
    model.graph.initializer.extend(numpy_helper.from_array(t.numpy(), n) for n, t in names)

    def plan(graph: Any) -> Any:
        spec = collage.load(text=SPEC)["t"]
        found = collage.choose(graph, collage.propose(graph, spec), cost=price)
        return [(kernel.label, len(kernel.nodes)) for kernel in found.kernels], found.cost

    graph = collage.from_torch(exported(module, torch.zeros(1, 3, 8, 8)))
    assert plan(graph) == plan(collage.from_onnx(model))


SPEC = """
collage 1;
target t on llvm { rules combine_by_primitives(op_call_by_kind(), using: tvm_default); }
"""


@pytest.mark.torch
def test_programs_are_compiled_and_verified_by_pytorch() -> None:
    import torch

    image = exported(image_model(), torch.zeros(2, 3, 16, 16), torch.zeros(5))
    words = exported(encoder(), torch.zeros(2, 7, dtype=torch.int64))
    steps = exported(recurrent(), torch.zeros(2, 5, 6))

    for program, inputs in (
        (image, {"x": f32(2, 3, 16, 16), "y": f32(5)}),
        (words, {"i": np.arange(14).reshape(2, 7) % 10}),
        (steps, {"x": f32(2, 5, 6)}),
    ):
        executable = compiled(program)
        assert executable.report.verification.reference == "PyTorch"
        assert_as_in_pytorch(program, executable, inputs)


@pytest.mark.torch
def test_a_dynamic_dimension_takes_any_size() -> None:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU())
    size = torch.export.Dim("size", min=1, max=64)
    program = exported(module, torch.zeros(3, 4), dynamic_shapes=({0: size},))
    executable = compiled(program)

    for rows in (1, 2, 9):
        (name,) = [value.name for value in executable.executable.signature.inputs]
        assert_as_in_pytorch(program, executable, {name: f32(rows, 4)})


@pytest.mark.torch
def test_what_is_no_exported_program_is_refused() -> None:
    import torch

    for given, said in (
        (torch.nn.ReLU(), r"exported first: torch\.export\.export"),
        (torch.zeros(3), "gives, and not a value of type Tensor"),
        (3, "gives, and not a value of type int"),
    ):
        with pytest.raises(FrontendError, match=said):
            collage.from_torch(given)
    program = exported(torch.nn.ReLU(), torch.zeros(3))
    with pytest.raises(FrontendError, match="has the shapes that it was exported for"):
        collage.compile(program, targets=["native"], shapes={"x": (4,)})


@pytest.mark.torch
def test_an_operator_that_onnx_lacks_is_an_error() -> None:
    import torch

    class Hypotenuse(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.hypot(x, x)

    with pytest.raises(FrontendError, match=r"cannot import.*No ONNX function.*prims\.hypot"):
        collage.from_torch(exported(Hypotenuse(), torch.eye(3)))


def operators() -> Any:
    """Operators that Relax's own importer refuses, or of which it computes something else."""
    import torch
    from torch.nn import functional

    class Operators(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            image, whole = x.reshape(1, 4, 4, 6), (x * 10).int()
            pooled, places = functional.max_pool2d(image, 2, return_indices=True)
            return (
                functional.selu(x),
                functional.interpolate(image, size=(7, 9)),
                functional.grid_sample(image, image.reshape(1, 4, 12, 2).tanh()),
                functional.group_norm(image, 2),
                functional.unfold(image, 2),
                functional.pixel_shuffle(image, 2),
                torch.zeros_like(x).index_add(0, torch.arange(16) // 2, x),
                torch.zeros_like(x).scatter_add(0, whole.long().abs() % 16, x),
                *(pooled, places, whole / 3, (whole << 2) >> 1),
                *((x > 0) + (x < -1), (x > 0) * (x < 1), whole // 3),
                *(x.logsumexp(1), (x > 0).any(), *x.min(1), x.prod(1)),
            )

    return Operators()


@pytest.mark.torch
def test_operators_are_those_of_pytorch() -> None:
    program = exported(operators(), _torch(f32(16, 6)))
    assert_as_in_pytorch(program, compiled(program), {"x": f32(16, 6)})


def _torch(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)


@pytest.mark.torch
def test_logarithms_of_large_and_small_powers_are_those_of_pytorch() -> None:
    import torch

    class Logarithms(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.nn.functional.logsigmoid(x), torch.logaddexp(x, y), torch.logaddexp2(x, y)

    x = np.array([-200, 200, -1, 0.5, np.inf, -np.inf, np.inf], np.float32)
    y = np.array([-201, -3, 2, 0.5, np.inf, -np.inf, 1], np.float32)
    program = exported(Logarithms(), _torch(x), _torch(y))
    assert_as_in_pytorch(program, compiled(program), {"x": x, "y": y})


@pytest.mark.torch
def test_losses_of_large_numbers_are_those_of_pytorch() -> None:
    import torch
    from torch.nn import functional

    class Losses(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            classes, weight = torch.arange(7) % 5, torch.tensor([1.0, 0.5, 2.0, 1.0, 3.0])
            return (
                functional.binary_cross_entropy_with_logits(x, x.sigmoid()),
                functional.cross_entropy(x, x.flip(0).softmax(1)),
                functional.cross_entropy(x, classes),
                functional.cross_entropy(
                    x, classes, weight=weight, ignore_index=2, label_smoothing=0.1
                ),
            )

    x = 100 * f32(7, 5)
    program = exported(Losses(), _torch(x))
    assert_as_in_pytorch(program, compiled(program), {"x": x})


@pytest.mark.torch
def test_cumulative_logarithms_are_those_of_pytorch() -> None:
    import torch

    class Cumulative(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.logcumsumexp(-1), x.logcumsumexp(0), x[0, 0].logcumsumexp(0)

    x = 100 * f32(4, 7)
    x[0, :2] = -np.inf
    program = exported(Cumulative(), _torch(x))
    assert_as_in_pytorch(program, compiled(program), {"x": x})
    size = torch.export.Dim("size", min=1, max=64)
    program = exported(Cumulative(), _torch(x), dynamic_shapes=({0: size},))
    assert_as_in_pytorch(program, compiled(program), {"x": x})


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles_are_those_of_pytorch(dtype: str) -> None:
    import torch

    class Angle(torch.nn.Module):
        def forward(self, y: Any, x: Any) -> Any:
            return torch.atan2(y, x)

    values = [0, -0.0, 1, -2, np.inf, -np.inf, np.nan]
    y, x = (np.array(each, dtype) for each in np.meshgrid(values, values))
    program = exported(Angle(), _torch(y), _torch(x))
    found = compiled(program).run({"y": y, "x": x})["atan2"]
    np.testing.assert_allclose(found, np.arctan2(y, x), rtol=1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_shifts_keep_the_dtype(dtype: str) -> None:
    import torch

    class Shifts(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x >> 1, x << 2, x >> y, x << y, torch.bitwise_right_shift(x, y), 1 << y

    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 0, 5, limits.max // 2, limits.min // 2 + 1], dtype)
    y = np.arange(6).astype(dtype)
    program = exported(Shifts(), _torch(x), _torch(y))
    executable = compiled(program)
    assert_as_in_pytorch(program, executable, {"x": x, "y": y})
    assert {each.dtype for each in executable.executable.signature.outputs} == {dtype}


@pytest.mark.torch
def test_logarithms_of_normal_probabilities_are_those_of_pytorch() -> None:
    import torch

    class Normal(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.special.log_ndtr(x), torch.special.erfcx(x.abs())

    x = np.array([-1e4, -30, -1, -0.99, 0, 0.5, 8, 1e4], np.float32)
    program = exported(Normal(), _torch(x))
    assert_as_in_pytorch(program, compiled(program), {"x": x})


@pytest.mark.torch
def test_reading_a_program_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The exporter would log that it keeps a constant which is an output."""
    import torch

    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, 4))

        def forward(self, x: Any) -> Any:
            return self.weight * 2, x + self.weight

    program = exported(Constant(), torch.zeros(3, 4))
    caplog.clear()
    collage.from_torch(program)
    assert not [each for each in caplog.records if each.levelname != "DEBUG"]


@pytest.mark.torch
def test_inputs_and_outputs_keep_their_names() -> None:
    import torch

    class Names(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Any, factor: int, pair: Any) -> Any:
            self.count.add_(1)
            return x, {"y": pair[1], "z": x * factor + self.count}, x

    program = torch.export.export(Names(), (torch.eye(3), 2, [torch.eye(3), torch.ones(3)]))
    graph = collage.from_torch(program)

    assert graph.names(graph.parameters) == {"x", "pair_0", "pair_1"}
    assert graph.output_names == ("x", "pair_1", "add", "x")
    assert tuple(program.graph_signature.user_outputs) == graph.output_names


@pytest.mark.torch
def test_outputs_that_are_no_tensors_are_refused() -> None:
    import torch

    class Both(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1, 3

    with pytest.raises(FrontendError, match="gives `3` beside tensors: return only tensors"):
        collage.from_torch(exported(Both(), torch.eye(3)))


@pytest.mark.torch
def test_complex_numbers_are_refused() -> None:
    import torch

    class Turned(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.view_as_complex(x) * 1j

    with pytest.raises(FrontendError, match=r"`mul` of the .* complex numbers.*view_as_real"):
        collage.from_torch(exported(Turned(), torch.ones(3, 2)))


@pytest.mark.torch
def test_numbers_may_be_inputs_and_outputs() -> None:
    import torch

    class Numbers(torch.nn.Module):
        def forward(self, x: Any, times: int, more: float, name: str, nothing: Any = None) -> Any:
            return x * times + more, x.shape[0], x.shape[0] / 2, (x > 9).any().item()

    n = torch.export.Dim("n")
    inputs, sizes = (torch.ones(4, 3), 2, 0.5, "text"), ({0: n}, None, None, None)
    found = compiled(exported(Numbers(), *inputs, dynamic_shapes=sizes)).run({"x": f32(5, 3)})
    assert [each.tolist() for each in list(found.values())[1:]] == [5, 2.5, False]
    np.testing.assert_allclose(found["add"], f32(5, 3) * 2 + 0.5)


@pytest.mark.torch
def test_numbers_of_a_byte_may_be_outputs() -> None:
    import torch

    class Bytes(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.to(torch.float8_e4m3fn), x.to(torch.bfloat16)

    x = f32(6)
    found = compiled(exported(Bytes(), _torch(x))).run({"x": x})
    assert [each.dtype.name for each in found.values()] == ["float8_e4m3fn", "bfloat16"]


def test_without_pytorch_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)

    with pytest.raises(
        FrontendError, match="need torch, which is not installed: pip install torch onnxscript"
    ):
        collage.from_torch(object())


def test_what_is_no_model_is_refused() -> None:
    said = r"^a model is the path of an ONNX file.*and not a value of type "
    with pytest.raises(FrontendError, match=f"{said}dict$"):
        collage.compile({}, targets=["native"])
    with pytest.raises(FrontendError, match=rf"{said}IRModule; .*relax_pipeline=collage\.pipeline"):
        collage.compile(tvm.IRModule(), targets=["native"])
    with pytest.raises(FrontendError, match=rf"{said}IRModule; .*collage\.from_relax"):
        collage.from_onnx(tvm.IRModule())
