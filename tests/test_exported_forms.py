"""
The patterns of `std` match what both exporters of PyTorch 2.13 write.

The folder `exported` holds their models, without names of files and lines: `torch.onnx.export` with
`dynamo=False` (opset 17) and `dynamo=True` (opset 18), in ONNX's own text format.
"""

from functools import cache
from pathlib import Path

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest

import collage_dsl
from collage_dsl import builder
from collage_dsl.graph import Graph, members
from collage_dsl.language.graphs.graph_text import parse_graph
from collage_dsl.rules.matcher import Match, matches
from collage_dsl.rules.pattern import Pattern

FOLDER = Path(__file__).parent / "exported"
FILES = sorted(path.name.removesuffix(".onnxtxt") for path in FOLDER.glob("*.onnxtxt"))

# By model: the pattern, and how many of the computed nodes are not part of it.
WANTED = {
    "att": ("attention", 1),  # `k` is transposed before
    "gelu": ("gelu", 0),
    "gelu_tanh": ("gelu_tanh", 0),
    "hard_sigmoid": ("hard_sigmoid", 0),
    "hard_swish": ("hard_swish", 0),
    "ln": ("layer_norm", 0),
    "ln_spelled": ("layer_norm", 0),
    "mish": ("mish", 0),
    "relu6": ("relu6", 0),
    "rms": ("rms_norm", 0),
    "rotary": ("rotary", 0),
    "sdpa": ("attention", {"torchscript": 1, "dynamo": 3}),
    "sdpa_causal": ("attention", {"torchscript": 1, "dynamo": 3}),
    "sdpa_mask": ("attention", {"torchscript": 1, "dynamo": 3}),
    "silu": ("silu", 0),
    "softplus": ("softplus", 0),
    "torch_rms": ("rms_norm", 0),
}


@cache
def pattern(name: str) -> Pattern:
    for file in ("activations", "normalization", "attention"):
        found = builder.imported(f"std/{file}.collage").get(name)
        if isinstance(found, Pattern):
            return found
    raise AssertionError(name)


def at_result(name: str, graph: Graph) -> list[Match]:
    return list(matches(pattern(name), graph, graph.outputs[-1]))


@pytest.mark.parametrize("file", FILES)
def test_what_is_exported_is_one_match(file: str) -> None:
    name, exporter = file.split(".")
    wanted, before = WANTED[name]
    model = onnx.parser.parse_model((FOLDER / f"{file}.onnxtxt").read_text(encoding="utf-8"))
    graph = collage_dsl.from_onnx(model)
    found = at_result(wanted, graph)
    outside = before if isinstance(before, int) else before[exporter]

    largest = max(len(list(members(match.inside))) for match in found)
    assert largest == len(list(members(graph.computed))) - outside
    if wanted != "attention":
        assert len(found) == 1


def attention(*lines: str) -> Graph:
    given = "q: f32[1, 2, 3, 4]; k: f32[1, 2, 4, 3]; v: f32[1, 2, 3, 4]; z: f32[1, 2, 3, 3];"
    return parse_graph(f"{given} {' '.join(lines)} return y;")


SCALED = ("m = matmul(q, k);", "t = divide(m, const f32[] 2);")
REST = ("p = nn.softmax(u) [axis = -1];", "y = matmul(p, v);")


MASKED_ROW = (
    "e = equal(u, const f32[] -inf);",
    "f = logical_not(e);",
    'g = astype(f) [dtype = "int8"];',
    "h = max(g) [axis = [-1], keepdims = true];",
    'i = astype(h) [dtype = "bool"];',
    "n = logical_not(i);",
    "o = full_like(p, const f32[] 0);",
    "w = where(n, o, p);",
    "y = matmul(w, v);",
)
"""What TVM's importer of PyTorch writes behind the softmax."""


@pytest.mark.parametrize(
    "lines",
    [
        (*SCALED, "u = add(z, t);", *REST),
        (*SCALED, "a = add(z, const f32[3, 3]);", "u = add(a, t);", *REST),
        (*SCALED, "b = add(t, const f32[3, 3]);", "u = add(b, z);", *REST),
        (*SCALED, "c = greater(z, const f32[] 0);", "u = where(c, t, const f32[] -1e9);", *REST),
        (*SCALED, "c = greater(z, const f32[] 0);", "u = where(c, const f32[] -1e9, t);", *REST),
        ("u = matmul(q, k);", *REST),
        (
            *SCALED,
            "u = add(z, t);",
            "p = nn.softmax(u) [axis = -1];",
            "n = isnan(p);",
            "w = where(n, const f32[] 0, p);",
            "y = matmul(w, v);",
        ),
        (*SCALED, "u = add(z, t);", "p = nn.softmax(u) [axis = -1];", *MASKED_ROW),
    ],
)
def test_attention_takes_masks_of_every_kind(lines: tuple[str, ...]) -> None:
    assert len(at_result("attention", attention(*lines))) >= 1


@pytest.mark.parametrize(
    "lines",
    [
        (*SCALED, "u = add(z, t);", "p = nn.softmax(u) [axis = 1];", "y = matmul(p, v);"),
        (*SCALED, "u = multiply(z, t);", *REST),
        ("m = matmul(q, k);", "u = multiply(m, const f32[3] [1, 2, 3]);", *REST),
        (*SCALED, "u = add(z, t);", "y = matmul(u, v);"),
    ],
)
def test_other_products_are_no_attention(lines: tuple[str, ...]) -> None:
    assert at_result("attention", attention(*lines)) == []


SLICES = (
    "a = strided_slice(x, [2], [0], [4], [1]);",
    "b = strided_slice(x, [2], [4], [8], [1]);",
)
CONCATENATED = ("n = negative(b);", "t = (n, a);", "r = concat(t) [axis = -1];")
TURNED = ("p = multiply(x, c);", "q = multiply(s, r);", "y = add(q, p);")
SPLIT = ("h = split(x) [indices_or_sections = 2, axis = 2];", "a = h.0;", "b = h.1;")
PAIRS = (
    "i = multiply(a, c);",
    "j = multiply(b, s);",
    "k = multiply(b, c);",
    "l = multiply(s, a);",
    "m = subtract(i, j);",
    "o = add(l, k);",
    "t = (m, o);",
    "y = concat(t) [axis = 2];",
)


def rotary(lines: tuple[str, ...], width: int) -> int:
    """How many matches end at the result; the angles have `width` columns."""
    given = f"x: f32[2, 3, 8]; z: f32[2, 3, 8]; c: f32[3, {width}]; s: f32[3, {width}];"
    return len(at_result("rotary", parse_graph(f"{given} {' '.join(lines)} return y;")))


def test_rotary_embeddings_are_cut_into_halves_in_several_ways() -> None:
    assert rotary((*SLICES, *CONCATENATED, *TURNED), 8) == 1
    assert rotary((*SPLIT, *CONCATENATED, *TURNED), 8) == 1
    assert rotary((*SLICES, *PAIRS), 4) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("t = (n, a);", "t = (a, n);"),
        ("n = negative(b);", "n = negative(a);"),
        ("p = multiply(x, c);", "p = multiply(z, c);"),
        ("[4], [8], [1]", "[3], [7], [1]"),
        ("[4], [8], [1]", "[0], [8], [2]"),
    ],
)
def test_other_rotations_are_no_rotary_embedding(old: str, new: str) -> None:
    lines = (*SLICES, *CONCATENATED, *TURNED)
    assert any(old in line for line in lines)
    assert rotary(tuple(line.replace(old, new) for line in lines), 8) == 0


BLOCK = """
<ir_version: 9, opset_import: ["" : 18]>
block (float[1, 8, 6, 6] x, float[16, 8, 1, 1] u, float[16] a, float[16, 1, 3, 3] w, float[16] b)
  => (float[1, 16, 6, 6] y) {
  k = Conv(x, u, a)
  l = HardSwish(k)
  m = Conv<group = 16, pads = [1, 1, 1, 1]>(l, w, b)
  y = HardSwish(m)
}
"""


def test_a_block_of_mobilenet_is_one_native_candidate() -> None:
    model = onnx.parser.parse_model(BLOCK)
    rng = np.random.default_rng(0)
    for value in model.graph.input[1:]:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        array = rng.normal(size=dims).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    del model.graph.input[1:]
    graph = collage_dsl.from_onnx(model)

    (spec,) = collage_dsl.load(FOLDER.parent.parent / "specs" / "native.collage").values()
    everything = {graph.nodes[index].name for index in members(graph.computed)}
    assert any(each.nodes == everything for each in collage_dsl.propose(graph, spec))
