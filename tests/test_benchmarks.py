"""The benchmarks compare engines on the same function, and count their goals rightly."""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from pathlib import Path

import numpy as np
import onnx
import pytest

from collage_dsl.backends.tvm_target import host_target

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

import analytic
import cores
import engines
import models
from kernels.cases import GOALS, cases
from kernels.ours import made_by_us
from kernels.reference import error, exact
from kernels.summary import Result, Row, summary
from layers import Layers, random_inputs

CASES = {case.name: case for case in cases()}


def test_each_kind_of_kernel_has_cases_with_names_of_their_own() -> None:
    assert {case.kind for case in cases()} == set(GOALS)
    assert len(CASES) == len(cases())


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("conv 3x3 160-320@7", ["direct"]),
        ("160-960-160@7", ["direct", "direct in 3"]),
        ("LRN 64@56", ["direct", "direct in 2"]),
        ("attention 3x128x64", ["direct", "direct in 4"]),
    ],
)
def test_a_kernel_of_ours_computes_its_case_whole_and_cut(name: str, ways: list[str]) -> None:
    model = CASES[name].model()
    inputs = random_inputs(model)
    expected = exact(model, inputs)

    made = list(made_by_us(model, inputs, host_target(), ["direct"]))

    assert [each.name for each in made] == ways
    for each in made:
        each.loaded.call()
        assert error(each.loaded.output(), expected) < 5e-6


@pytest.mark.parametrize("name", ["LRN 64@56", "average 3x3 s1 192@28", "conv 5x5 16-32@28"])
def test_the_result_in_float64_is_that_of_onnxruntime(name: str) -> None:
    model = CASES[name].model()
    inputs = random_inputs(model)
    loaded = engines.load_onnxruntime(model, inputs, 1)
    loaded.call()

    assert error(loaded.output(), exact(model, inputs)) < 2e-6


def test_average_pooling_with_padding_on_one_side_is_given_to_pnnx_as_global() -> None:
    net = Layers()
    pooled = net.node("AveragePool", net.input(1, 4, 6, 6), kernel_shape=[7, 7], pads=[0, 0, 1, 1])
    model = net.model(net.relu(pooled), (1, 4, 1, 1))
    inputs = random_inputs(model)

    given = engines.as_pnnx_reads_it(model)

    assert [node.op_type for node in given.graph.node] == ["GlobalAveragePool", "Relu"]
    assert np.allclose(exact(given, inputs), exact(model, inputs), rtol=1e-12)


def test_pooling_of_a_part_of_the_image_is_given_to_pnnx_unchanged() -> None:
    net = Layers()
    pooled = net.node("AveragePool", net.input(1, 4, 6, 6), kernel_shape=[3, 3])
    model = net.model(pooled, (1, 4, 4, 4))

    given: onnx.ModelProto = engines.as_pnnx_reads_it(model)

    assert [node.op_type for node in given.graph.node] == ["AveragePool"]


def kernel(kind: str, ours: float, **others: float) -> Row:
    results = {name: Result(evicted, evicted, 0.0) for name, evicted in others.items()}
    slow = Result(ours, 2 * ours, 0.0)
    variants = {"slow": slow, "fast": Result(ours, ours, 0.0)}
    return Row(kind, "some kernel", results, variants, {})


def test_a_goal_compares_the_worst_ratio_of_the_fastest_variant_with_the_better_library() -> None:
    rows = [
        kernel("3x3 vgg19", 2.0, onnxruntime=8.0, openvino=10.0, ncnn=4.0),
        kernel("3x3 vgg19", 3.0, onnxruntime=8.0, openvino=10.0, ncnn=4.0),
        kernel("1x1", 2.0, onnxruntime=2.0, openvino=3.0),
    ]

    _, three, one = summary(rows)

    assert three.split()[1:] == ["vgg19", "0.35", "0.31", "0.38", "0.61", "0.75", "fail"]
    assert one.split()[1:] == ["1.05", "1.00", "1.00", "1.00", "1.00", "pass"]


def test_a_goal_is_not_judged_without_both_libraries() -> None:
    _, line = summary([kernel("1x1", 2.0, onnxruntime=3.0)])

    assert line.split()[-1] == "0.67"


def test_the_models_of_the_suite_meet_their_goals_by_their_best_engine() -> None:
    results = {
        "ours": models.Result(0.98, 0.0),
        "onnxruntime": models.Result(2.0, 0.0),
        "ncnn": models.Result(1.0, 0.0),
    }
    rows = [models.Row(name, 1, "mixed", {}, results, {}) for name in ("resnet50", "gpt2")]

    said = list(models.summary(rows, threads=1))

    assert said == ["fail  resnet50: 0.98, goal 0.97", "pass  gpt2: 0.98, goal 1.00"]


def test_the_gain_of_a_second_core_is_shown_for_a_kernel_and_for_a_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = tmp_path / "relu.onnx"
    net = Layers()
    onnx.save(net.model(net.relu(net.input(1, 16)), (1, 16)), model)
    options = ["--rounds", "1", "--only", "LRN 64@56", "--store", str(tmp_path / "costs.db")]
    monkeypatch.setattr("sys.argv", ["cores.py", *options, str(model)])

    cores.main()

    _, of_model, of_kernel = capsys.readouterr().out.splitlines()
    for name, line in ((str(model), of_model), ("LRN 64@56", of_kernel)):
        assert line.startswith(name)
        one, several, gain, apart = re.findall(r"\d+\.\d+", line.removeprefix(name))
        assert float(gain) == pytest.approx(float(one) / float(several), rel=0.1)
        assert float(apart) > 0


def test_a_goal_is_shown_as_met_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    given = Namespace(cores=1, rounds=1)

    def pause() -> None:
        time.sleep(1e-3)

    cores.show("model", (pause, pause), given, 1e-3)
    cores.show("model", (pause, pause), given, 1e3)

    met, missed = capsys.readouterr().out.splitlines()
    assert "pass: goal 0.00" in met
    assert "fail: goal 1000.00" in missed


def test_estimates_that_order_kernels_rightly_correlate_whatever_their_size() -> None:
    found = [analytic.Pair("m", "tvm", 2.0 * cost, cost) for cost in (1.0, 3.0, 2.0)]
    other = [analytic.Pair("m", "onnxruntime", 4.0 - cost, cost) for cost in (1.0, 3.0)]

    assert list(analytic.rows([*found, *other]))[2:] == [
        "| tvm | 3 | 1.00 | 2.00 | 2.00 to 2.00 |",
        "| onnxruntime | 2 | -1.00 | 1.67 | 0.60 to 2.73 |",
        "| all | 5 | 0.16 | 2.00 | 1.00 to 2.60 |",
    ]
