"""Random valid models of a few operators, inputs of eight kinds, and whether two results agree."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper

from collage_dsl.realization.shaken import is_float
from tests.fuzz.builder import FLOATS, INTEGERS, SHORT, Array, Builder, Shape, static_type
from tests.fuzz.operators import OPERATORS


@dataclass(slots=True)
class Made:
    """A model, and how many indices are valid where it takes an input as indices."""

    model: ModelProto
    indices: Mapping[str, int]


def made(seed: int) -> Made:
    """A valid model."""
    chosen = Random(seed)
    while True:
        builder = Builder(chosen)
        dtype = chosen.choice(FLOATS)
        rank = chosen.choice((1, 2, 2, 3, 4, 4, 4))
        builder.input(dtype, tuple(chosen.choices((1, 2, 3, 5, 8, 17), k=rank)))
        if chosen.random() < 0.3:
            builder.input(chosen.choice((dtype, *INTEGERS)), builder.values[0].shape)
        wanted = chosen.randint(1, 5)
        for _ in range(60):
            if len(builder.nodes) == wanted:
                break
            try:
                chosen.choice(OPERATORS)(builder)
            except (IndexError, ValueError, onnx.shape_inference.InferenceError):
                continue
        if not builder.nodes:
            continue
        used = {name for node in builder.nodes for name in node.input}
        ends = [n for node in builder.nodes for n in node.output if n not in used]
        model = builder.model([], ends, checked=True)
        taken = [each for each in model.graph.input if each.name in used]
        kept = [each for each in model.graph.initializer if each.name in used]
        for there, those in ((model.graph.input, taken), (model.graph.initializer, kept)):
            copies = [type(each).FromString(each.SerializeToString()) for each in those]
            del there[:]
            there.extend(copies)  # type: ignore[arg-type]
        return Made(model, {n: v for n, v in builder.indices.items() if n in used})


# Inputs.


def draws(made: Made, seed: int) -> Iterator[tuple[str, dict[str, Array]]]:
    """Inputs of eight kinds. Those of `wrong indices` have one, where the model takes indices."""
    for number, (kind, floats) in enumerate(DRAWS.items()):
        generator = np.random.default_rng((seed, number))
        yield (
            kind,
            {
                value.name: _drawn(value, kind, floats, generator, made.indices)
                for value in made.model.graph.input
            },
        )


def _drawn(
    value: onnx.ValueInfoProto,
    kind: str,
    floats: Callable[[np.random.Generator, Shape], Array],
    generator: np.random.Generator,
    indices: Mapping[str, int],
) -> Array:
    type_, shape = static_type(value.type)
    dtype = helper.tensor_dtype_to_np_dtype(type_)
    if type_ in FLOATS:
        with np.errstate(over="ignore"):
            return np.asarray(floats(generator, shape), dtype)
    valid = indices.get(value.name)
    if valid is None:
        return np.asarray(generator.integers(-1000, 1000, shape), dtype)
    array = np.asarray(generator.integers(-valid, valid, shape), dtype)
    if kind == "wrong indices":
        array.flat[generator.integers(array.size)] = generator.choice([valid, -valid - 1, 2**40])
    return array


def _special(generator: np.random.Generator, shape: Shape) -> Array:
    array = np.ravel(generator.normal(size=shape))
    kinds = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e4, -1e4, 1e-40]
    places = generator.permutation(array.size)[: max(1, array.size // 8)]
    array[places] = generator.choice(kinds, places.size)
    return array.reshape(shape)


def _infinite(generator: np.random.Generator, shape: Shape) -> Array:
    return np.asarray(generator.choice([np.inf, -np.inf, 1.0, -1.0], shape))


DRAWS: Mapping[str, Callable[[np.random.Generator, Shape], Array]] = {
    "usual": lambda generator, shape: generator.normal(size=shape),
    "large": lambda generator, shape: 100 * generator.normal(size=shape),
    "tiny": lambda generator, shape: 1e-4 * generator.normal(size=shape),
    "negative": lambda generator, shape: -np.abs(generator.normal(size=shape)),
    "whole": lambda generator, shape: np.asarray(generator.integers(-3, 4, shape), float),
    "special": _special,
    "infinite": _infinite,
    "wrong indices": lambda generator, shape: generator.normal(size=shape),
}


# Results.

_TOLERANCE = 1e-4
"""
The allowed difference where no value is shorter than float32, relative to the largest finite value
of a tensor. Elsewhere it is eight units of rounding.
"""

DIFFERENT = (
    *(
        "ArgMax",
        "ArgMin",
        "Clip",
        "GlobalMaxPool",
        "LRN",
        "MaxPool",
        "ReduceMax",
        "ReduceMin",
        "Sigmoid",
    ),
    *("Sign", "TopK"),
)
"""Operators whose results are compared for finite numbers only: see docs/numerics.md."""


_LAST_OF_ONE = 2.0**-22
"""The last digits of 1: `exp(x) - 1` of a tiny `x` has no more. See docs/numerics.md."""


def is_different(model: ModelProto) -> bool:
    """Whether results are compared only where all values on the way are finite numbers."""
    operators = {node.op_type for node in model.graph.node}
    return is_short(model) or is_tiny(model) or not operators.isdisjoint(DIFFERENT)


def is_tiny(model: ModelProto) -> bool:
    """Whether a model magnifies what rounding leaves of numbers: see docs/numerics.md."""
    operators = {node.op_type for node in model.graph.node}
    normalizes = not operators.isdisjoint(("InstanceNormalization", "LayerNormalization"))
    return operators >= {"Softplus", "Pow"} or (is_short(model) and normalizes)


def is_short(model: ModelProto) -> bool:
    """
    Whether a value of the model is float16 or bfloat16, as which onnxruntime does not round all of
    them.
    """
    return not _types(model).isdisjoint(SHORT)


def unit_of(model: ModelProto) -> float:
    """How much rounding changes a value at most."""
    types = _types(model)
    if TensorProto.BFLOAT16 in types:
        return 2.0**-7
    return 2.0**-10 if TensorProto.FLOAT16 in types else 2.0**-21


def _types(model: ModelProto) -> set[int]:
    graph = model.graph
    return {each.type.tensor_type.elem_type for each in (*graph.value_info, *graph.input)}


def with_all_values(model: ModelProto) -> ModelProto:
    """`model` with every value as an output."""
    found = ModelProto.FromString(model.SerializeToString())
    del found.graph.output[:]
    found.graph.output.extend(model.graph.output)
    known = {value.name for value in model.graph.output}
    found.graph.output.extend(each for each in model.graph.value_info if each.name not in known)
    return found


def differences(actual: Array, right: Sequence[Array], unit: float) -> str:
    """
    How `actual` differs from all of several results, of which each is right but for rounding, which
    changes values by `unit`; empty if it does not. `right` begins with that of onnxruntime.
    """
    first = right[0]
    if actual.shape != first.shape or actual.dtype != first.dtype:
        return f"{actual.dtype}{actual.shape} in place of {first.dtype}{first.shape}"
    same = np.zeros(first.shape, bool)
    if not is_float(first):
        for each in right:
            same |= actual == each
        return _shown(actual, right, ~same)
    wide = [np.asarray(each, np.float64) for each in right]
    taken = actual.astype(np.float64)
    finite = [each[np.isfinite(each)] for each in wide]
    largest = max((float(np.abs(each).max()) for each in finite if each.size), default=0.0)
    spread = np.zeros(first.shape)
    with np.errstate(invalid="ignore"):
        for each in wide[1:]:
            spread = np.fmax(spread, np.where(np.isfinite(each - wide[0]), abs(each - wide[0]), 0))
        for each in wide:
            allowed = max(_TOLERANCE, 8 * unit) * largest + 8 * spread + _LAST_OF_ONE
            near = abs(taken - each) <= allowed + float(ml_dtypes.finfo(first.dtype).tiny)
            same |= near | (taken == each) | (np.isnan(taken) & np.isnan(each))
    return _shown(actual, right, ~same)


def _shown(actual: Array, right: Sequence[Array], wrong: Array) -> str:
    if not wrong.any():
        return ""
    at = tuple(map(int, np.argwhere(wrong)[0]))
    wanted = ", ".join(str(each[at]) for each in right)
    return f"{int(wrong.sum())} of {wrong.size} elements differ; at {at} {actual[at]}, not {wanted}"
