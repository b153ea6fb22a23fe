"""The patterns of `std` match a function in all spellings, and no other function."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest

import collage_dsl
from collage_dsl import builder
from collage_dsl.graph import Graph
from collage_dsl.rules.matcher import matches
from collage_dsl.rules.pattern import Pattern
from tests.cases import sample
from tests.spellings import Expression, apply, changed, plus, product, spelled

SHAPE = (2, 3, 8)
X = "x"


@dataclass(frozen=True, slots=True)
class Form:
    """A function in one spelling: the pattern, the reference, and changes to another function."""

    pattern: str
    reference: Expression
    said: Expression
    changes: tuple[tuple[Expression, Expression | None], ...]

    def __str__(self) -> str:
        return self.pattern


def clip(of: Expression, most: float) -> Expression:
    return apply("Clip", of, 0.0, most)


def logistic(of: Expression) -> Expression:
    return apply("Reciprocal", plus(apply("Exp", apply("Neg", of)), 1.0))


SWISH = product(X, apply("Sigmoid", X))
ERF = apply("Erf", product(X, 0.70710678))
GELU = apply("Gelu", X)
TANH_GELU = apply("Gelu", X, approximate="tanh")
CUBE = product(X, X, X, 0.044715)
TANH = apply("Tanh", product(0.79788456, plus(X, CUBE)))
OTHER_TANH = apply("Tanh", product(X, 0.79788456, plus(product(X, X, 0.044715), 1.0)))
SIX = clip(plus(X, 3.0), 6.0)
RELU6 = apply("Min", apply("Relu", plus(X, 3.0)), 6.0)
SAFE = plus(apply("Relu", X), apply("Log", plus(apply("Exp", apply("Neg", apply("Abs", X))), 1.0)))
PLAIN = apply("Log", plus(apply("Exp", X), 1.0))
SIXTH = 1 / 6

FORMS = {
    "gelu, erf": Form("gelu", GELU, product(X, 0.5, plus(ERF, 1.0)), ((0.5, 0.4), (1.0, None))),
    "gelu_erf": Form(
        "gelu_erf", GELU, product(X, 0.5, plus(ERF, 1.0)), ((ERF, apply("Erf", X)), (1.0, 2.0))
    ),
    "gelu, one factor": Form(
        "gelu",
        GELU,
        product(X, plus(product(ERF, 0.5), 0.5)),
        ((ERF, apply("Erf", product("z", 0.70710678))),),
    ),
    "gelu, tanh": Form(
        "gelu", TANH_GELU, product(X, 0.5, plus(TANH, 1.0)), ((0.044715, 0.05), (0.5, 0.4))
    ),
    "gelu_tanh, x first": Form(
        "gelu_tanh",
        TANH_GELU,
        product(X, 0.5, plus(OTHER_TANH, 1.0)),
        ((0.79788456, 0.75), (OTHER_TANH, apply("Tanh", X))),
    ),
    "quick_gelu": Form(
        "quick_gelu",
        product(X, apply("Sigmoid", product(1.702, X))),
        product(X, apply("Sigmoid", product(X, 1.702))),
        ((1.702, 1.0), (apply("Sigmoid", product(X, 1.702)), apply("Sigmoid", "z"))),
    ),
    "silu": Form(
        "silu",
        SWISH,
        SWISH,
        ((apply("Sigmoid", X), apply("Sigmoid", "z")), (SWISH, product(SWISH, "z"))),
    ),
    "silu, logistic": Form("silu", SWISH, product(X, logistic(X)), ((1.0, None), (1.0, 2.0))),
    "silu, quotient": Form(
        "swish",
        SWISH,
        apply("Div", X, plus(apply("Exp", product(X, -1.0)), 1.0)),
        ((-1.0, -2.0), (1.0, None)),
    ),
    "relu6": Form("relu6", clip(X, 6.0), clip(X, 6.0), ((6.0, 5.0),)),
    "relu6, keras": Form("relu6", clip(X, 6.0), apply("Min", apply("Relu", X), 6.0), ((6.0, 5.0),)),
    "hard_swish": Form(
        "hard_swish", apply("HardSwish", X), product(X, SIX, SIXTH), ((3.0, 2.0), (SIXTH, 0.2))
    ),
    "hard_swish, rounded": Form(
        "hard_swish", apply("HardSwish", X), product(X, SIX, 0.1667), ((3.0, None), (6.0, 5.0))
    ),
    "hard_swish, keras": Form(
        "hard_swish", apply("HardSwish", X), product(X, RELU6, SIXTH), ((RELU6, clip(X, 6.0)),)
    ),
    "hard_swish, one operator": Form(
        "hard_swish", apply("HardSwish", X), apply("HardSwish", X), ((apply("HardSwish", X), X),)
    ),
    "hard_sigmoid": Form(
        "hard_sigmoid",
        apply("HardSigmoid", X, alpha=SIXTH, beta=0.5),
        product(SIX, SIXTH),
        ((SIXTH, 0.2), (3.0, 2.0)),
    ),
    "hard_sigmoid, one operator": Form(
        "hard_sigmoid",
        apply("HardSigmoid", X, alpha=SIXTH, beta=0.5),
        clip(plus(product(X, SIXTH), 0.5), 1.0),
        ((0.5, 0.4), (SIXTH, 0.2)),
    ),
    "softplus": Form("softplus", apply("Softplus", X), PLAIN, ((1.0, 2.0),)),
    "softplus, safe": Form("softplus", apply("Softplus", X), SAFE, ((1.0, 2.0),)),
    "softplus, one operator": Form(
        "softplus",
        apply("Softplus", X),
        apply("Softplus", X),
        ((apply("Softplus", X), apply("Tanh", X)),),
    ),
    "mish": Form(
        "mish",
        apply("Mish", X),
        product(X, apply("Tanh", apply("Softplus", X))),
        ((apply("Softplus", X), apply("Softplus", "z")),),
    ),
    "mish, plain": Form("mish", apply("Mish", X), product(X, apply("Tanh", PLAIN)), ((1.0, None),)),
}

MEAN = apply("ReduceMean", X, "axes", keepdims=1)
D = apply("Sub", X, MEAN)
SQUARES = apply("ReduceMean", product(X, X), "axes", keepdims=1)
VARIANCE = apply("ReduceMean", product(D, D), "axes", keepdims=1)


def root(of: Expression) -> Expression:
    return apply("Sqrt", plus(of, 1e-5))


def inverse(of: Expression) -> Expression:
    return apply("Reciprocal", root(of))


RMS = apply("RMSNormalization", X, "g", axis=-1, epsilon=1e-5)
LAYER = apply("LayerNormalization", X, "g", "b", axis=-1, epsilon=1e-5)
UNSCALED = apply("LayerNormalization", X, "ones", axis=-1, epsilon=1e-5)
OTHER_MEAN = apply("ReduceMean", X, "other_axes", keepdims=1)
SCALE = product(inverse(VARIANCE), "g")

FORMS |= {
    "rms_norm": Form(
        "rms_norm",
        RMS,
        product(X, inverse(SQUARES), "g"),
        ((product(X, X), product(X, "z")), (product(X, X), product(X, X, X)), (SQUARES, MEAN)),
    ),
    "rms_norm, quotient": Form(
        "rms_norm", RMS, product(apply("Div", X, root(SQUARES)), "g"), ((SQUARES, VARIANCE),)
    ),
    "layer_norm": Form(
        "layer_norm",
        LAYER,
        plus(product(D, inverse(VARIANCE), "g"), "b"),
        ((VARIANCE, SQUARES), (D, X), (MEAN, OTHER_MEAN)),
    ),
    "layer_norm, quotient": Form(
        "layer_norm",
        LAYER,
        plus(product(apply("Div", D, root(VARIANCE)), "g"), "b"),
        ((D, apply("Sub", "z", MEAN)), (VARIANCE, "z")),
    ),
    "layer_norm, without scale": Form(
        "layer_norm", UNSCALED, apply("Div", D, root(VARIANCE)), ((root(VARIANCE), VARIANCE),)
    ),
    "layer_norm, keras": Form(
        "layer_norm",
        LAYER,
        plus(product(X, SCALE), apply("Sub", "b", product(MEAN, SCALE))),
        ((VARIANCE, SQUARES), (apply("Sub", "b", product(MEAN, SCALE)), "b")),
    ),
    "layer_norm, one operator": Form("layer_norm", LAYER, LAYER, ((LAYER, RMS),)),
}


@cache
def pattern(name: str) -> Pattern:
    for file in ("activations", "normalization"):
        found = builder.imported(f"std/{file}.collage").get(name)
        if isinstance(found, Pattern):
            return found
    raise AssertionError(name)


def value(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = {each.name for each in session.get_inputs()}
    (found,) = session.run(None, {name: feeds[name] for name in wanted})
    return np.asarray(found)


def results(graph: Graph, name: str) -> int:
    """How many matches end at the result."""
    (root,) = graph.outputs
    return len(matches(pattern(name), graph, root))


FEEDS = {name: np.random.default_rng(7).normal(0, 3, SHAPE).astype(np.float32) for name in (X, "z")}
INPUTS = dict.fromkeys((X, "z"), SHAPE)
WEIGHTS = {
    "g": np.linspace(0.5, 1.5, 8, dtype=np.float32),
    "b": np.linspace(-1, 1, 8, dtype=np.float32),
    "ones": np.ones(8, np.float32),
    "axes": np.array([-1], np.int64),
    "other_axes": np.array([1], np.int64),
}


def model_of(said: Expression, seed: int) -> onnx.ModelProto:
    return spelled(said, seed, INPUTS, WEIGHTS)


@pytest.mark.parametrize("form", sample(2, FORMS.values()), ids=FORMS.keys())
def test_a_function_is_matched_once_in_every_spelling(form: Form) -> None:
    wanted = value(model_of(form.reference, 0), FEEDS)
    for seed in range(8):
        model = model_of(form.said, seed)

        assert np.allclose(value(model, FEEDS), wanted, rtol=1e-3, atol=1e-3)
        assert results(collage_dsl.from_onnx(model), form.pattern) == 1, seed


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_another_function_is_not_matched(form: Form) -> None:
    for old, new in form.changes:
        other = changed(form.said, old, new)
        for seed in range(3):
            model = model_of(other, seed)
            assert results(collage_dsl.from_onnx(model), form.pattern) == 0, (old, new, seed)


def test_the_spellings_differ() -> None:
    texts = {onnx.printer.to_text(model_of(FORMS["gelu, erf"].said, seed)) for seed in range(20)}
    assert len(texts) > 15
