"""The light models import in canonical form, and compute what onnxruntime does."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from onnx import numpy_helper

from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.light import light_model, light_models
from collage_dsl.frontend.onnx import from_onnx
from tests.cases import slow
from tests.test_frontend_onnx import largest_error, operators, random_inputs, run_onnx

SMALL = ("squeezenet", "shufflenet")
LARGE = tuple(name for name in light_models() if name not in SMALL)

OPERATORS = {
    "alexnet": "nn.conv2d 5 add 10 nn.relu 7 multiply 4 nn.avg_pool2d 2 power 2 divide 2 "
    "nn.max_pool2d 3 reshape 1 matmul 3 nn.softmax 1",
    "densenet121": "nn.conv2d 121 add 122 nn.relu 121 nn.max_pool2d 1 multiply 62 concat 58 "
    "nn.avg_pool2d 3 mean 1",
    "inception_v1": "nn.conv2d 57 add 60 nn.relu 57 nn.max_pool2d 13 multiply 4 nn.avg_pool2d 3 "
    "power 2 divide 2 concat 9 reshape 1 matmul 1 nn.softmax 1",
    "inception_v2": "nn.conv2d 69 add 70 nn.relu 69 nn.max_pool2d 5 nn.avg_pool2d 8 concat 10 "
    "reshape 1 matmul 1 nn.softmax 1",
    "resnet50": "nn.conv2d 53 add 70 nn.relu 49 nn.max_pool2d 1 nn.avg_pool2d 1 reshape 1 "
    "matmul 1 nn.softmax 1",
    "shufflenet": "nn.conv2d 49 add 63 nn.relu 33 nn.max_pool2d 1 reshape 33 permute_dims 16 "
    "nn.avg_pool2d 4 concat 3 matmul 1 nn.softmax 1",
    "squeezenet": "nn.conv2d 26 add 26 nn.relu 26 nn.max_pool2d 3 concat 8 mean 1 nn.softmax 1",
    "vgg19": "nn.conv2d 16 add 19 nn.relu 18 nn.max_pool2d 5 reshape 1 matmul 3 nn.softmax 1",
    "zfnet512": "nn.conv2d 5 add 10 nn.relu 7 multiply 4 nn.avg_pool2d 2 power 2 divide 2 "
    "nn.max_pool2d 3 reshape 1 matmul 3 nn.softmax 1",
}


def check(name: str) -> None:
    model = light_model(name)
    graph = from_onnx(model)
    words = OPERATORS[name].split()

    assert Counter(operators(graph)) == dict(zip(words[::2], map(int, words[1::2]), strict=True))
    assert [graph.nodes[i].name for i in graph.outputs] == [o.name for o in model.graph.output]
    assert largest_error(model, graph) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_small_light_model_computes_the_same(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_light_model_computes_the_same(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", ["shufflenet", "resnet50", slow("densenet121")])
def test_a_light_model_is_in_canonical_form(name: str) -> None:
    words = OPERATORS[name].split()
    graph = from_onnx(light_model(name))

    assert Counter(operators(graph)) == dict(zip(words[::2], map(int, words[1::2]), strict=True))


@pytest.mark.parametrize(
    "name", ["squeezenet", "shufflenet", slow("inception_v1"), slow("resnet50")]
)
def test_the_outputs_of_a_light_model_vary(name: str) -> None:
    model = light_model(name)
    graph = from_onnx(model)
    first, second = (run_onnx(model, random_inputs(graph, seed))[0] for seed in (0, 1))

    assert 0.003 < first.max() < 0.9
    assert np.abs(first - second).max() > 0.01 * first.max()


def test_a_light_model_is_the_same_in_every_process() -> None:
    script = (
        "import hashlib\n"
        "from collage_dsl.frontend.light import light_model\n"
        "print(hashlib.sha256(light_model('squeezenet').SerializeToString()).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=True, text=True
        ).stdout
        for _ in range(2)
    }

    assert len(digests) == 1


def test_another_seed_gives_other_weights() -> None:
    first, second = (
        numpy_helper.to_array(light_model("squeezenet", seed).graph.initializer[0])
        for seed in (0, 1)
    )

    assert not np.array_equal(first, second)


def test_an_unknown_light_model_is_refused() -> None:
    with pytest.raises(
        FrontendError, match="no light model is named `resnet`; there are alexnet, "
    ):
        light_model("resnet")
