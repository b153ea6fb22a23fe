"""What TVM cannot make a kernel of is refused with a reason, before a rule proposes it."""

import pytest

from collage_dsl.backends.tvm import Tvm
from collage_dsl.language import parse_graph
from tests.cases import slow
from tests.one_kernel import one_kernel_of

SAMPLED = "x: f32[1, 2, 6, 6]; g: f32[1, 2, 4, 4]; y = image.grid_sample(x, g)"
DOUBLES = SAMPLED.replace("f32", "f64")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x: f32[3, 4]; y = nonzero(x); return y;", "found as the model runs"),
        ("x: f32[*]; y = nn.relu(x); return y;", "found as the model runs"),
        (
            "x: f32[8]; b: i64[1]; y = dynamic_strided_slice(x, b, b, b); return y;",
            "found as the model runs",
        ),
        (
            "x: f32[n, 4]; z: f32[n, 2, 2]; s = shape_of(z); y = reshape(x, s); return y;",
            "found as the model runs",
        ),
        (
            "z: f32[n, 4]; s = shape_of(z); y = zeros(s) [dtype = f32]; return y;",
            "found as the model runs",
        ),
        (
            'x: f32[8]; y = ccl.allreduce(x) [op_type = "sum", in_group = true]; return y;',
            "talks to other processes",
        ),
        ('x: f32[3, 4]; y = eye_like(x, 0) [dtype = "int32"]; return y;', "dtype of its operand"),
        (
            f'{DOUBLES} [method = "nearest", padding_mode = "reflection"]; return y;',
            "the nearest after a reflection",
        ),
    ],
)
def test_what_has_no_kernel_is_refused_with_a_reason(text: str, reason: str) -> None:
    graph = parse_graph(text, name="main")

    assert reason in (Tvm().supports(graph) or "")
    with pytest.raises(Exception):  # noqa: B017, PT011, TVM raises errors of many kinds
        one_kernel_of(graph)


@pytest.mark.parametrize(
    "text",
    [
        "x: f32[3, 4]; y = eye_like(x, 0); return y;",
        slow(f'{SAMPLED} [method = "bilinear", padding_mode = "reflection"]; return y;'),
        f'{SAMPLED} [method = "nearest", padding_mode = "reflection"]; return y;',
        "x: f32[n, 4]; y = nn.relu(x); return y;",
    ],
)
def test_what_is_near_to_that_is_built(text: str) -> None:
    graph = parse_graph(text, name="main")

    assert Tvm().supports(graph) is None
    one_kernel_of(graph)
