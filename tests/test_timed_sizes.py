"""The sizes at which models are timed whose dimensions may have any size."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.engine.sizes import Part, timed_draw, timed_sizes
from collage_dsl.engine.verified import drawn
from collage_dsl.realization.draws import timed_sizes_of
from tests.commands import said
from tests.reference import run_onnx


def sizes(text: str) -> list[dict[str, int]]:
    return list(timed_sizes_of(collage.parse_graph(text)))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("x: f32[n, 3]; y = exp(x); return y;", {"n": 3}, {"n": 3}),
        ("x: f32[n]; y = exp(x); return y;", {"n": 3}, {"n": 3}),
        ("x: f32[n, s, 8]; y = exp(x); return y;", {"n": 3, "s": 128}, {"n": 3, "s": 3}),
        (
            "x: f32[1, 3, h, w]; y = exp(x); return y;",
            {"h": 128, "w": 128},
            {"h": 3, "w": 3},
        ),
        (  # The second is the first of one input, and a side of the other.
            "x: f32[n, 8]; z: f32[4, n]; y = exp(x); u = exp(z); return y, u;",
            {"n": 128},
            {"n": 3},
        ),
        (  # 128 of each would be more than an input may have.
            "x: f32[n, 3, d, h, w]; y = exp(x); return y;",
            {"n": 3, "d": 64, "h": 64, "w": 64},
            {"n": 3, "d": 3, "h": 3, "w": 3},
        ),
        ("x: f32[2, 3]; y = exp(x); return y;", {}, {}),
    ],
)
def test_lengths_and_sides_are_large_and_batches_small(
    text: str, first: dict[str, int], last: dict[str, int]
) -> None:
    found = sizes(text)

    assert (found[0], found[-1]) == (first, last)


def test_sizes_fulfil_what_operators_need() -> None:
    """An image of 3 is too small for a window of 9."""
    every = sizes("x: f32[n, 3, h, w]; y = nn.max_pool2d(x) [pool_size = [9, 9]]; return y;")

    assert [each["h"] for each in every] == [128, 64, 32, 16, 9]


def with_positions(count: int) -> onnx.ModelProto:
    """Texts of up to `count` tokens, to which a row of a table is added each."""
    made = parse_model(
        """
        <ir_version: 9, opset_import: ["" : 18]>
        net (float[n, s, 8] x) => (float[n, s, 8] y) {
            length = Shape<start=1, end=2>(x)
            zero = Constant<value_ints=[0]>()
            rows = Slice(table, zero, length)
            a = Add(x, rows)
            y = Exp(a)
        }
        """
    )
    table = np.random.default_rng(0).normal(size=(count, 8)).astype(np.float32)
    made.graph.initializer.append(numpy_helper.from_array(table, "table"))
    return made


@pytest.mark.parametrize(("rows", "size"), [(512, 128), (77, 64), (7, 3)])
def test_a_model_is_timed_at_the_largest_sizes_at_which_it_runs(rows: int, size: int) -> None:
    model = with_positions(rows)
    made = collage.compile(model, ["native"], cost=lambda _: 1e-6, race_seconds=0.01)

    assert made.report.plan.timed_at == {"n": 3, "s": size}
    for seed, shape in enumerate([(2, 5, 8), (1, 7, 8)]):
        x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        right = run_onnx(model, {"x": x})["y"]
        np.testing.assert_allclose(made.run({"x": x})["y"], right, rtol=1e-5)


def test_the_sizes_of_inputs_that_are_given_count() -> None:
    x = np.ones((2, 6, 8), np.float32)
    made = collage.compile(
        with_positions(7), ["native"], cost=lambda _: 1e-6, race_seconds=0.01, inputs={"x": x}
    )

    assert made.report.plan.timed_at == {"n": 2, "s": 6}


def test_a_part_is_timed_on_inputs_of_its_sizes() -> None:
    model = with_positions(40)
    graph = collage.from_onnx(model)
    part = drawn(model, Part({}, graph, None, None))

    assert timed_sizes(part) == {"n": 3, "s": 32}
    assert timed_draw(part).inputs["x"].shape == (3, 32, 8)
    assert part.inputs is None, "it is verified at other sizes too"


def test_commands_say_for_which_sizes_the_times_are(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(with_positions(40), path)
    given = [path, "-t", "native", "--store", tmp_path / "costs.sqlite"]

    text = said("plan", *given).out
    answer = json.loads(said("plan", *given, "--output-format", "json").out)
    made = said("compile", *given, "-o", tmp_path / "out").out

    assert "times are for n = 3, s = 32\n" in text
    assert answer["timed_at"] == {"n": 3, "s": 32}
    assert "times are for n = 3, s = 32\n" in made
    assert "0 measured now" in made, "a plan and a compilation are timed at the same sizes"

    ran = json.loads(said("run", tmp_path / "out", "--sizes", "n=2", "--output-format", "json").out)
    assert ran["sizes"] == {"n": 2, "s": 32}
    assert ran["outputs"]["y"]["shape"] == [2, 32, 8]
    assert "of random inputs: n = 3, s = 32\n" in said("run", tmp_path / "out").out
    (tmp_path / "out" / "report.json").unlink()
    assert "of random inputs: n = 3, s = 3\n" in said("run", tmp_path / "out").out
