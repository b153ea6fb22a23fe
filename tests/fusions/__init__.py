"""
Fusions in a graph, found by plain loops over its nodes: `examples/accelerator.collage` is compared
with them. They use neither the language nor its patterns and matcher.

Activations are found by what they compute. The others are found by going from one operator to its
neighbours. Each function gives the nodes inside each fusion of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

import collage_dsl as collage
from collage_dsl.graph import Graph
from collage_dsl.rules import FusionSpec
from tests.fusions.activations import NUMBERS, activations
from tests.fusions.attentions import attentions, causal_attentions
from tests.fusions.layers import branches, dense_stacks
from tests.fusions.nodes import Fusion
from tests.fusions.norms import rms_norms
from tests.fusions.quantized import quantized_products
from tests.fusions.rotaries import interleaved_rotary, rotary

SPEC = Path(__file__).parents[2] / "examples" / "accelerator.collage"

FUSIONS: Mapping[str, Callable[[Graph], set[Fusion]]] = {
    "gelu": activations(NUMBERS["nn.gelu"]),
    "gelu_tanh": activations(NUMBERS["nn.gelu_tanh"]),
    "quick_gelu": activations(lambda x: x / (1 + np.exp(-1.702 * x))),
    "hard_swish": activations(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "silu": activations(NUMBERS["nn.silu"]),
    "rms_norm": rms_norms,
    "rotary": rotary,
    "interleaved_rotary": interleaved_rotary,
    "attention": attentions,
    "causal_attention": causal_attentions,
    "dense_stack": dense_stacks,
    "branches": branches,
    "quantized_matmul": quantized_products,
}
"""The pattern of each kind of fusion in the spec, and how the fusions are found here."""


def proposed(graph: Graph) -> dict[str, set[Fusion]]:
    """
    What the spec proposes: for each kind the nodes of the candidates, without those that are a
    part of a larger one.
    """
    spec = the_spec()
    found: dict[str, set[Fusion]] = {name: set() for name in FUSIONS}
    for candidate in collage.propose(graph, spec):
        inside = frozenset(graph.index(name) for name in candidate.nodes)
        found[candidate.label.removeprefix(f"{spec.name}.")].add(inside)
    return {name: _largest(groups) for name, groups in found.items()}


@cache
def the_spec() -> FusionSpec:
    (spec,) = collage.load(SPEC).values()
    return spec


def _largest(groups: set[Fusion]) -> set[Fusion]:
    return {group for group in groups if not any(group < other for other in groups)}
