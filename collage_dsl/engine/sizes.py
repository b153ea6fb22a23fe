"""The parts of a compilation: a model for any size, and for each of the sizes asked for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from numbers import Integral
from typing import Any

import numpy as np

from collage_dsl.frontend.any_model import graph_of
from collage_dsl.frontend.arrays import SharedConstants
from collage_dsl.frontend.errors import ShapesError
from collage_dsl.frontend.onnx_model import Shapes
from collage_dsl.graph import Graph, TensorType, members
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.sizes import Sizes, may_be, names_in, no_dimension, size_of
from collage_dsl.realization.draws import Draw, draws_of, timed_sizes_of
from collage_dsl.realization.executable import arrays_of
from collage_dsl.realization.signature import Signature

WantedSizes = Mapping[str, Sequence[int]]
"""The sizes of each dimension, by its name, that a model is compiled for."""

_MOST = 64
"""The most combinations of sizes. Each takes as long as a compilation."""


@dataclass(frozen=True, slots=True)
class Part:
    """
    A model at some `sizes` of its dimensions: the shapes of its inputs where they are given, and
    real inputs of these sizes, if there are any; or else the sizes of its other dimensions at which
    it is `timed`, if it is known to run there.
    """

    sizes: Sizes
    graph: Graph
    shapes: Shapes | None
    inputs: Mapping[str, Array] | None
    timed: Sizes | None = None


def timed_sizes(part: Part) -> Sizes:
    """
    The sizes of symbolic dimensions at which a part is timed: those that its inputs have, else
    those at which it is known to run, else the first that may be.
    """
    usual = next(timed_sizes_of(part.graph)) if part.timed is None else part.timed
    if part.inputs is None:
        return usual
    known = {
        dim: size
        for index in members(part.graph.parameters)
        if (dims := _dims(part.graph, index))
        for dim, size in zip(dims, np.shape(part.inputs[part.graph.nodes[index].name]), strict=True)
    }
    return {name: int(known.get(name, size)) for name, size in usual.items()}


def timed_draw(part: Part) -> Draw:
    """The inputs on which a part is timed."""
    return next(draws_of(part.graph, part.inputs, timed_sizes(part)))


def parts_of(
    model: Any, shapes: Shapes | None, sizes: WantedSizes, inputs: Mapping[str, Any] | None
) -> list[Part]:
    """
    The parts of `model`. The first is for any size, then there is one for each combination of the
    `sizes`. Raises `ShapesError` for sizes that it cannot have.
    """
    shared = SharedConstants() if sizes else None
    graph = graph_of(model, shapes, shared)
    arrays = None if inputs is None else arrays_of(Signature.of(graph).inputs, inputs)
    parts = [Part({}, graph, shapes, arrays)]
    for chosen in _combinations(graph, sizes):
        fixed = {**(shapes or {}), **_shapes_at(graph, chosen)}
        at_sizes = graph_of(model, fixed, shared)
        is_fitting = arrays is not None and _fit(at_sizes, arrays)
        parts.append(Part(chosen, at_sizes, fixed, arrays if is_fitting else None))
    return parts


def _combinations(graph: Graph, sizes: WantedSizes) -> list[dict[str, int]]:
    named = {
        name: None
        for index in members(graph.parameters)
        for dim in _dims(graph, index)
        for name in sorted(names_in(dim))
    }
    if not isinstance(sizes, Mapping):
        said = 'must be a dictionary, such as {"n": (1, 8)}'
        raise TypeError(f"`sizes` of `compile` {said}, not {type(sizes).__name__}")
    for name, wanted in sizes.items():
        if isinstance(wanted, str) or not isinstance(wanted, Collection):
            said = f"must have a list or a tuple of sizes for `{name}`"
            raise TypeError(f"`sizes` of `compile` {said}, not {wanted!r}")
        if name not in named:
            raise ShapesError(no_dimension(name, named))
        if not wanted or not all(map(is_size, wanted)):
            raise ShapesError(
                f"the sizes of `{name}` are one or more whole numbers from 0, not {wanted!r}"
            )
    count = prod(len(set(wanted)) for wanted in sizes.values())
    if count > _MOST:
        raise ShapesError(f"{count} combinations of sizes are asked for; at most {_MOST} may be")
    numbers = (dict.fromkeys(map(int, wanted)) for wanted in sizes.values())
    every = product(*numbers) if sizes else ()
    return [dict(zip(sizes, chosen, strict=True)) for chosen in every]


def is_size(value: object) -> bool:
    """Whether a dimension can have this size: a whole number from 0, of Python or of numpy."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _shapes_at(graph: Graph, sizes: Sizes) -> Shapes:
    """The shapes of those inputs that have dimensions in `sizes`."""
    shapes = {graph.nodes[index].name: _dims(graph, index) for index in members(graph.parameters)}
    return {
        name: tuple(size_of(dim, sizes) for dim in dims)
        for name, dims in shapes.items()
        if any(names_in(dim) & sizes.keys() for dim in dims)
    }


def _dims(graph: Graph, index: int) -> Sequence[int | str]:
    type_ = graph.nodes[index].type
    return (type_.shape or ()) if isinstance(type_, TensorType) else ()


def _fit(graph: Graph, inputs: Mapping[str, Array]) -> bool:
    """Whether these are inputs of `graph`."""
    nodes = [graph.nodes[index] for index in members(graph.parameters)]
    return all(
        may_be(node.type.shape, np.shape(inputs[node.name]))
        for node in nodes
        if isinstance(node.type, TensorType)
    )
