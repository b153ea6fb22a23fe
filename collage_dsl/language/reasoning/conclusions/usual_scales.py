"""What quantized numbers usually are, and the ranks and dtypes of their scales and zero points."""

from collections.abc import Iterator, Sequence

from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Compare, Constant, Dtype, Expression, Rank, Within

_WHOLE = ("i4", "i8", "i16", "i32", "u4", "u8", "u16", "u32")
_FLOATS_OF_8_BITS = ("f8_e4m3fn", "f8_e5m2")


def usual_scales(called: Called, ways: Sequence[Facts]) -> Iterator[tuple[Expression, str]]:
    """
    What is usual of the operands of `dequantize` and `quantize`, each with words for it. TVM's
    inference of types does not refuse the rest, but no importer writes it.
    """
    match called.call.ops:
        case ("dequantize",):
            data, quantized = "data", Dtype(called.operands[0])
        case ("quantize",):
            data, quantized = "result", Dtype(called.result)
        case _:
            return
    op = called.call.ops[0]
    scale, zero_point = called.operands[1:]
    if all(_is_whole(quantized, way) for way in ways):
        words = f"the zero point of `{op}` has the dtype of its {data}"
        yield Compare("==", Dtype(zero_point), quantized), words
    if op == "dequantize":
        words = "`dequantize` takes whole numbers or floats of 8 bits"
        yield Within(quantized, Constant((*_WHOLE, *_FLOATS_OF_8_BITS))), words
    for name, operand in (("scale", scale), ("zero point", zero_point)):
        words = f"the {name} of `{op}` is one number, or a list of them"
        yield Compare("<=", Rank(operand), Constant(1)), words


def _is_whole(dtype: Dtype, way: Facts) -> bool:
    """Whether `dtype` is no float of 8 bits, of which TVM takes the zero point as `f16`."""
    return not any(each in way.of(dtype) for each in _FLOATS_OF_8_BITS)
