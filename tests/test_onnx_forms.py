"""What the table of operators says that ONNX nodes become in models, compared with models."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import collage_dsl as collage
from collage_dsl.graph import Node
from collage_dsl.graph.operators import RelaxForm, operators, relax_operators
from tests.models import mnist, small_convolution, transformer_block
from tests.test_onnx_nodes import MODELS

SCRIPT = Path(__file__).parents[1] / "scripts" / "onnx_operator_table.py"


def is_up_to_date(*names: str) -> bool:
    folders = (SCRIPT.parents[1], SCRIPT.parent)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check", *names],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
    )
    assert not (done.returncode and "Traceback" in done.stderr), done.stderr
    return done.returncode == 0


def test_some_rows_of_the_table_are_what_the_script_makes() -> None:
    of_onnx = (
        "Relu",
        "LayerNormalization",
        "Conv",
        "LSTM",
        "NonZero",
        "Slice",
        "Cast",
        "TopK",
        "QLinearConv",
    )
    of_microsoft = ("BiasGelu", "FusedMatMul", "MultiHeadAttention", "MatMulNBits")
    names = [f"onnx.{name}" for name in of_onnx]

    assert is_up_to_date(*names, *(f"com.microsoft.{name}" for name in of_microsoft))


@pytest.mark.slow
def test_the_table_is_what_the_script_makes() -> None:
    assert is_up_to_date()


def forms() -> Iterator[tuple[str, RelaxForm]]:
    return ((name, each.form) for name, each in operators().items() if each.form is not None)


def test_forms_have_operators_that_patterns_can_name() -> None:
    named = {op for _, form in forms() for ops in form.ops for op in ops}

    assert not named - relax_operators().keys()


def form(name: str) -> RelaxForm:
    return dict(forms())[name]


def test_the_forms_are_those_that_are_expected() -> None:
    assert form("onnx.Relu").ops == (("nn.relu",),)
    assert form("onnx.LayerNormalization").ops == (("nn.layer_norm",),)
    assert form("com.microsoft.BiasGelu").ops == (("add", "nn.gelu"),)
    assert form("onnx.Conv").ops[0] == ("nn.conv2d",)
    assert {"group", "dilations", "auto_pad"} <= form("onnx.Conv").attrs
    assert form("onnx.Identity").ops == ((),)
    assert form("onnx.LayerNormalization").results == {1}
    assert form("onnx.Attention").operands == {3}


def test_nodes_that_often_stay_have_no_form() -> None:
    names = "onnx.LSTM onnx.NonZero com.microsoft.MatMulNBits com.microsoft.GroupQueryAttention"

    assert [operators()[name].form for name in names.split()] == [None] * 4
    assert operators()["onnx.LSTM"].sized
    assert not operators()["onnx.NonZero"].sized


@pytest.mark.parametrize(
    "model",
    [small_convolution(), transformer_block(), mnist(), *MODELS.values()],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_a_node_that_has_a_form_does_not_stay(model: onnx.ModelProto) -> None:
    """Where the shapes of all that it takes are known, and no attribute keeps it."""
    graph = collage.from_onnx(model)
    unsized = {name for name, each in operators().items() if not (each.sized or each.form)}
    unknown = unsized - relax_operators().keys()
    stayed = [node for node in graph.nodes if node.op in dict(forms()) and _is_usual(node)]

    assert not stayed or unknown.intersection(node.op for node in graph.nodes)


def _is_usual(node: Node) -> bool:
    defaults = operators()[node.op].defaults
    changed = {name for name, value in node.attrs.items() if value != defaults.get(name)}
    return changed <= form(node.op).attrs
