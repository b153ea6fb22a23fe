"""Short floating-point formats, against `ml_dtypes`; dtypes of less than a byte in the language."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import collage_dsl as collage
from collage_dsl.graph.floats import FORMATS, as_written, rounded
from collage_dsl.graph.types import TensorType, dtype_names, long_dtype, short_dtype
from tests.cases import cases


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_format_is_that_of_ml_dtypes(dtype: str) -> None:
    known = ml_dtypes.finfo(getattr(ml_dtypes, dtype, dtype))

    assert FORMATS[dtype].largest == float(known.max)
    assert FORMATS[dtype].fraction == known.nmant


@cases(300)
@example("float8_e8m0fnu", 1e-42)
@given(st.sampled_from(sorted(FORMATS)), st.floats(width=32, allow_nan=False))
def test_a_number_is_rounded_as_ml_dtypes_does(dtype: str, value: float) -> None:
    with np.errstate(over="ignore"):
        converted = np.array(value, np.float32).astype(getattr(ml_dtypes, dtype, dtype))
    if FORMATS[dtype].holds(value):
        assert float(converted) == rounded(value, dtype)


@cases(300)
@given(st.integers(-999_999, 999_999), st.integers(-12, 3))
def test_a_float32_of_few_digits_is_read_as_they_are_written(digits: int, exponent: int) -> None:
    number = float(f"{digits}e{exponent}")
    single = float(np.float32(number))

    assert as_written(single) == (single if single.is_integer() else number)


@pytest.mark.parametrize(
    "number",
    [0.1, 2.0**31, 1234567.875, 1 / 3, float(np.float32(1 / 3)), 1e300, float("inf"), 5e-324],
)
def test_other_numbers_stay_as_they_are(number: float) -> None:
    assert as_written(number) == number


@pytest.mark.parametrize("dtype", dtype_names())
def test_a_dtype_has_two_names_and_is_one_of_tvm(dtype: str) -> None:
    long = long_dtype(dtype)

    assert long is not None
    assert short_dtype(long) == dtype
    assert long_dtype(long) == long
    assert parsed(dtype) == parsed(long)


def parsed(dtype: str) -> object:
    return collage.parse_graph(f"x: {dtype}[2, 3]; y = reshape(x, [6]); return y;").nodes[-1].type


@pytest.mark.parametrize(
    ("dtype", "shape", "size"), [("int4", (3,), 2), ("float4_e2m1fn", (4, 2), 4), ("int8", (3,), 3)]
)
def test_elements_of_less_than_a_byte_are_packed(
    dtype: str, shape: tuple[int, ...], size: int
) -> None:
    assert TensorType(dtype, shape).bytes == size


QUANTIZED = """
collage 1;
pattern to_f8(x, s, z) { y = quantize(x, s, z) [out_dtype == f8_e4m3fn]; yield y; }
pattern from_f8(q, s, z) {
  y = dequantize(q, s, z);
  where dtype(q) in [f8_e4m3fn, f8_e5m2];
  yield y;
}
pattern from_i4(q) { y = astype(q); where dtype(q) == i4 and dtype(y) == f16; yield y; }
target t on llvm {
  rules union(dfpattern(to_f8), dfpattern(from_f8), dfpattern(from_i4));
  limits { max_exits any; }
}
"""


@pytest.mark.engine
def test_patterns_ask_for_them_in_a_relax_module() -> None:
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    w = relax.Var("w", relax.TensorType((4, 8), "int4"))
    scale = relax.const(np.float32(0.5))
    zero = relax.const(np.float16(0), "float16")
    with builder.function("main", [x, w]):
        with builder.dataflow():
            q = builder.emit(relax.op.quantize(x, scale, zero, 0, "float8_e4m3fn"), "q")
            d = builder.emit(relax.op.dequantize(q, scale, zero, 0, "float32"), "d")
            h = builder.emit(relax.op.astype(w, "float16"), "h")
            both = builder.emit_output(relax.Tuple([d, h]))
        builder.emit_func_output(both)
    graph = collage.from_relax(builder.get())

    found = collage.propose(graph, collage.load(text=QUANTIZED)["t"])

    assert {each.nodes for each in found} == {frozenset("q"), frozenset("d"), frozenset("h")}
    again = collage.parse_graph(collage.format_graph(graph))
    assert [node.type for node in again.nodes] == [node.type for node in graph.nodes]
