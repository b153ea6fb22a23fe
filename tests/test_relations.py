"""What is known of the results of operators, without TVM."""

import pytest

from collage_dsl.language.reasoning.relations import is_broadcasting, keeps_dtype, keeps_shape


@pytest.mark.parametrize(
    ("op", "dtype", "shape", "broadcasts"),
    [
        ("nn.relu", True, True, False),
        ("nn.softmax", True, True, False),
        ("astype", False, True, False),
        ("nn.dropout", False, False, False),
        ("add", True, False, True),
        ("equal", False, False, True),
        ("outer", True, False, False),
        ("matmul", False, False, False),
    ],
)
def test_results_are_like_operands(op: str, dtype: bool, shape: bool, broadcasts: bool) -> None:
    assert (keeps_dtype(op), keeps_shape(op), is_broadcasting(op)) == (dtype, shape, broadcasts)
