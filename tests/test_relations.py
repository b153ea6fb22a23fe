"""What is known of the results of operators, without TVM."""

import pytest

from collage_dsl.language.reasoning.relations import broadcasts, keeps_dtype, keeps_shape


@pytest.mark.parametrize(
    ("op", "dtype", "shape", "is_broadcast"),
    [
        ("nn.relu", True, True, False),
        ("nn.softmax", True, True, False),
        ("astype", False, True, False),
        ("nn.dropout", False, False, False),
        ("add", True, False, True),
        ("equal", False, False, True),
        ("outer", True, False, False),
        ("matmul", False, False, False),
        ("onnx.Celu", False, True, False),
        ("onnx.Softmax", False, True, False),
        ("onnx.Mod", False, False, True),
        ("onnx.Transpose", False, False, False),
    ],
)
def test_results_are_like_operands(op: str, dtype: bool, shape: bool, is_broadcast: bool) -> None:
    assert (keeps_dtype(op), keeps_shape(op), broadcasts(op)) == (dtype, shape, is_broadcast)
