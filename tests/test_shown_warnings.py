"""Warnings on stderr: ours, and none of TVM about its own code."""

from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16, finfo

from tests.commands import said
from tests.one_kernel import node, one_kernel, onnx_model

SPEC = """collage 1;
target t on llvm {
  rules combine_by_primitives(op_call_by_kind(), using: [join_anything]);
  limits { max_candidates 1; }
}
"""
GRAPH = "x: f32[4]; a = nn.relu(x); b = tanh(a); c = exp(b); return c;\n"


def test_a_warning_of_several_lines_is_shown_in_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.graph").write_text(GRAPH)
    Path("s.collage").write_text(SPEC)

    lines = said("candidates", "a.graph", "-t", "s.collage").err.splitlines()

    assert [line.partition(":")[0] for line in lines] == ["target `t`", "help"]


@pytest.mark.parametrize("exponent", [3, 3.5, 4, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, bfloat16])
def test_a_power_prints_no_advice_for_those_who_write_code_for_tvm(
    capfd: pytest.CaptureFixture[str], exponent: float, dtype: type
) -> None:
    x = np.array([0, 0.5, 3] if exponent % 1 else [-2, 0.5, 3], dtype)
    constants = {"e": np.array(exponent, dtype)}
    model = onnx_model([node("Pow", "x e")], {"x": x}, constants)

    y = one_kernel(model).run({"x": x})["y"].astype(np.float64)

    exact = x.astype(np.float64) ** exponent
    np.testing.assert_allclose(y, exact, rtol=2 * float(finfo(dtype).eps))
    assert capfd.readouterr().err == ""
