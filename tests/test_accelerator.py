"""
The spec of an accelerator finds what it should in models as PyTorch exports them, and nothing else.

The models are those of `tests/accelerator/`. What should be found is said twice: by the numbers of
layers that the models are made with, and by the loops of `tests/fusions`.
"""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl.engine.testing import run_tests
from collage_dsl.graph import Graph
from collage_dsl.language.loading import check, load_contents, read
from collage_dsl.language.write.formatter import format_source
from tests.cases import sample
from tests.fusions import FUSIONS, SPEC, proposed
from tests.fusions.nodes import Fusion
from tests.mutants import mutants

FOLDER = Path(__file__).parent / "accelerator"
PAGE = (Path(__file__).parents[1] / "docs" / "accelerator.md").read_text("utf-8")
MODELS = sorted(path.stem for path in FOLDER.glob("*.onnx"))

LAYERS = {
    "bert": {"attention": 2, "gelu": 2},
    "gpt2": {"attention": 2, "gelu_tanh": 2},
    "llama": {"attention": 2, "rotary": 4, "rms_norm": 5, "silu": 2},
    "causal": {"attention": 1, "causal_attention": 1},
    "vit": {"attention": 2, "gelu": 2},
    "vit-quantized": {"quantized_matmul": 13, "gelu": 2},
    "convnext": {"gelu": 2},
    "mobilenet_v2": {},
    "mobilenet_v3": {"hard_swish": 6},
    "inception": {"branches": 2},
    "dense": {"dense_stack": 2},
    "dense-quantized": {"quantized_matmul": 7},
    "spellings": {"gelu": 8, "gelu_tanh": 4, "quick_gelu": 1, "hard_swish": 7, "silu": 3},
    "turns": {"interleaved_rotary": 4},
}
"""How many of each fusion a model has, as it is built in `tests/accelerator/export.py`."""


@cache
def graph_of(name: str) -> Graph:
    return collage.from_onnx(FOLDER / f"{name}.onnx")


def found_in(graph: Graph) -> dict[str, set[Fusion]]:
    return {name: search(graph) for name, search in FUSIONS.items()}


@pytest.mark.parametrize("name", sample(2, MODELS))
def test_the_spec_finds_what_the_layers_of_a_model_are(name: str) -> None:
    built = name.removesuffix("-traced").removesuffix("_eager")
    counted = Counter({kind: len(found) for kind, found in proposed(graph_of(name)).items()})

    assert +counted == LAYERS[built]


@pytest.mark.parametrize("name", sample(2, MODELS))
def test_the_spec_finds_the_nodes_that_plain_loops_find(name: str) -> None:
    assert proposed(graph_of(name)) == found_in(graph_of(name))


def test_the_spec_is_in_order_and_its_tests_pass() -> None:
    source = read(SPEC)

    assert check(source) == ()
    assert format_source(source) == source.text
    assert all(outcome.passed for outcome in run_tests(load_contents(source)))


def test_the_page_shows_what_is_in_the_spec() -> None:
    shown = [block for block in PAGE.split("```")[1::2] if "$ collage" not in block]
    statements = [part for block in shown for part in block.strip().split("\n\n")]

    assert len(statements) == 2
    assert all(SPEC.read_text("utf-8").count(statement) == 1 for statement in statements)


def test_every_fusion_is_in_some_model() -> None:
    assert {kind for layers in LAYERS.values() for kind in layers} == FUSIONS.keys()


@pytest.mark.parametrize("name", sample(4, MODELS))
def test_a_near_miss_is_one_for_the_spec_where_it_is_one_for_the_loops(name: str) -> None:
    """What is part of a fusion is changed in one thing, here in a few places of each model."""
    _compare_mutants(name, most=3, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_many_near_misses(name: str) -> None:
    _compare_mutants(name, most=150, seed=1)


def _compare_mutants(name: str, most: int, seed: int) -> None:
    graph = graph_of(name)
    nodes = sorted({i for groups in found_in(graph).values() for group in groups for i in group})
    for what, mutant in mutants(graph, nodes, most, seed):
        assert proposed(mutant) == found_in(mutant), what


def test_the_models_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.onnx")) < 600_000
