"""Integer operations in native kernels have a result for all values, as docs/numerics.md says."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from collage_dsl.frontend.from_relax import from_relax
from tests.one_kernel import Array, node, one_kernel, one_kernel_of, onnx_model
from tests.test_index_checks import relax_machine

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def pairs(dtype: str) -> dict[str, Array]:
    """Each special value with each, more than fit in one vector."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    some = [least, least + 1, 0, 1, 2, 3, 7, 63, most - 1, most, *([-1, -2] if least else [])]
    a, b = np.meshgrid(np.array(some, dtype), np.array(some, dtype))
    return {"a": a.ravel(), "b": b.ravel()}


def run(op: str, inputs: dict[str, Array], **attributes: Any) -> Array:
    made = node(op, " ".join(inputs), **attributes)
    result: Array = one_kernel(onnx_model([made], inputs)).run(inputs)["y"]
    return result


def wrapped(number: int, dtype: str) -> int:
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return (number - least) % (most - least + 1) + least


def toward_zero(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_a_division_by_zero_is_zero_and_one_that_overflows_wraps(dtype: str) -> None:
    inputs = pairs(dtype)
    numbers = zip(inputs["a"].tolist(), inputs["b"].tolist(), strict=True)

    expected = [wrapped(toward_zero(a, b), dtype) for a, b in numbers]

    np.testing.assert_array_equal(run("Div", inputs), np.array(expected, dtype))


@pytest.mark.parametrize(("fmod", "rest"), [(0, np.mod), (1, np.fmod)])
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_the_rest_of_a_division_is_that_of_numpy(
    dtype: str, fmod: int, rest: Callable[[Array, Array], Array]
) -> None:
    inputs = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = rest(inputs["a"], inputs["b"])

    np.testing.assert_array_equal(run("Mod", inputs, fmod=fmod), expected)


@pytest.mark.parametrize("dtype", SIGNED)
def test_a_division_that_the_kernel_selects_is_guarded(dtype: str) -> None:
    """TVM knows that `b` is not zero where the quotient is selected; LLVM computes it for all."""
    inputs = pairs(dtype)
    nodes = [
        node("Equal", "b zero", "is_zero"),
        node("Div", "a b", "quotient"),
        node("Where", "is_zero a quotient"),
    ]
    model = onnx_model(nodes, inputs, {"zero": np.zeros((), dtype)})
    quotients = run("Div", inputs)

    actual = one_kernel(model).run(inputs)["y"]

    np.testing.assert_array_equal(actual, np.where(inputs["b"] == 0, inputs["a"], quotients))


def test_the_reciprocal_of_an_integer() -> None:
    x = np.array([0, 1, -1, 2, -(2**31)], np.int32)

    np.testing.assert_array_equal(run("Reciprocal", {"x": x}), [0, 1, -1, 0, 0])


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_a_shift_by_all_bits_or_more_is_that_of_numpy(dtype: str, direction: str) -> None:
    inputs = pairs(dtype)
    shift = np.left_shift if direction == "LEFT" else np.right_shift

    actual = run("BitShift", inputs, direction=direction)

    np.testing.assert_array_equal(actual, shift(inputs["a"], inputs["b"]))


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
@pytest.mark.parametrize("dtype", SIGNED)
def test_a_shift_of_signed_numbers_is_that_of_numpy(dtype: str, name: str) -> None:
    from tvm.relax import op

    a, b = pairs(dtype).values()

    actual = relax_machine(getattr(op, name), a, b)(a, b)

    np.testing.assert_array_equal(actual, getattr(np, name)(a, b))


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("divide", 0, [0, 0, 0]),
        ("floor_divide", 0, [0, 0, 0]),
        ("mod", 0, [0, 0, 0]),
        ("floor_mod", 0, [0, 0, 0]),
        ("floor_divide", -1, [5, -7, -(2**31)]),
        ("left_shift", 40, [0, 0, 0]),
        ("right_shift", 40, [-1, 0, -1]),
        ("right_shift", -1, [-1, 0, -1]),
    ],
)
def test_a_number_in_the_model_means_the_same(name: str, number: int, expected: list[int]) -> None:
    from tvm import relax
    from tvm.relax import op

    a = np.array([-5, 7, -(2**31)], np.int32)

    actual = relax_machine(lambda a: getattr(op, name)(a, relax.const(number, "int32")), a)(a)

    np.testing.assert_array_equal(actual, expected)


FLOATS = np.array(
    [
        *(0, -0.0, 0.5, -0.5, 1.5, -1.5, 127.9, 128, 255.9, 256, 300, -300, -1, 65535, 65536, 1e5),
        *(2.0**31 - 128, 2.0**31, -(2.0**31), -(2.0**31) - 256, 3e9, 2.0**32 - 256, 2.0**32),
        *(9e18, -9e18, 2.0**63, 1.8e19, 2.0**64, 1e30, -1e30, np.inf, -np.inf, np.nan),
    ],
    np.float64,
)


def as_integer(number: float, dtype: str) -> int:
    wide = "int64" if dtype in ("int64", "uint32", "uint64") else "int32"
    if dtype == "uint64" and number >= 0:
        wide = dtype
    if np.isnan(number):
        return 0
    least, most = int(np.iinfo(wide).min), int(np.iinfo(wide).max)
    whole = most if number > most else least if number < least else int(number)
    return wrapped(whole, dtype)


@pytest.mark.parametrize("source", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_a_float_as_an_integer_is_limited_and_nan_is_zero(dtype: str, source: str) -> None:
    with np.errstate(over="ignore"):
        x = FLOATS.astype(source)

    actual = run("Cast", {"x": x}, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    expected = [as_integer(number, dtype) for number in x.tolist()]
    np.testing.assert_array_equal(actual, np.array(expected, dtype))


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_a_float_is_true_unless_it_is_zero(source: str) -> None:
    with np.errstate(over="ignore"):
        x = FLOATS.astype(source)

    actual = run("Cast", {"x": x}, to=helper.np_dtype_to_tensor_dtype(np.dtype(bool)))

    np.testing.assert_array_equal(actual, x != 0)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_power_of_integers_is_rounded_toward_zero_and_limited(dtype: str) -> None:
    a = np.array([2, 3, -2, 0, 1, -1, 7, 10, 2, 0, -3, 10], dtype)
    b = np.array([3, 2, 3, 0, 5, -1, -1, 9, -3, -1, -2, 100], dtype)
    most = np.iinfo(dtype).max

    actual = run("Pow", {"a": a, "b": b})

    expected = [8, 9, -8, 1, 1, -1, 0, 10**9, 0, most, 0, most]
    np.testing.assert_array_equal(actual, np.array(expected, dtype))


@pytest.mark.parametrize("operands", ["x two", "two x"])
def test_a_power_of_integers_with_a_number_is_a_native_kernel(operands: str) -> None:
    x = np.array([0, 1, 2, 3, 7], np.int32)
    inputs = {"x": x}
    model = onnx_model([node("Pow", operands)], inputs, {"two": np.array(2, np.int32)})

    actual = one_kernel(model).run(inputs)["y"]

    np.testing.assert_array_equal(actual, x**2 if operands == "x two" else 2**x)


@pytest.mark.parametrize("name", ["divide", "floor_divide"])
def test_a_division_by_the_number_zero_is_a_native_kernel(name: str) -> None:
    from tvm import relax

    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((3,), "int32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            quotient = builder.emit(getattr(relax.op, name)(x, relax.const(0, "int32")))
            result = builder.emit_output(quotient)
        builder.emit_func_output(result)
    graph = from_relax(builder.get(), "main")

    (actual,) = one_kernel_of(graph).run({"x": np.array([-5, 0, 7], np.int32)}).values()

    np.testing.assert_array_equal(actual, [0, 0, 0])


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.usefixtures("small_loops_are_shared")
def test_a_shared_loop_divides_by_zero(cores: int) -> None:
    a, b = np.arange(4096, dtype=np.int32) - 2000, np.arange(4096, dtype=np.int32) % 3 - 1
    inputs = {"a": a, "b": b}

    actual = one_kernel(onnx_model([node("Div", "a b")], inputs), cores).run(inputs)["y"]

    np.testing.assert_array_equal(actual, a * b)


@pytest.mark.parametrize("dtype", SIGNED)
def test_a_value_that_is_a_result_and_is_chosen_by(dtype: str) -> None:
    x = np.arange(-20, 25, dtype=dtype)
    made = onnx_model([node("Neg", "x", "negative"), node("Abs", "negative")], {"x": x})
    made.graph.output.append(onnx.ValueInfoProto(name="negative"))

    found = one_kernel(made).run({"x": x})

    np.testing.assert_array_equal(found["negative"], -x)
    np.testing.assert_array_equal(found["y"], abs(x))


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_a_shift_is_defined_by_the_code_and_not_by_the_processor(dtype: str, name: str) -> None:
    from tvm import te, topi

    from collage_dsl.realization.defined import with_defined_integers

    x, y = (te.placeholder((8,), dtype, each) for each in "xy")
    function = te.create_prim_func([x, y, getattr(topi, name)(x, y)])

    assert "Select" in with_defined_integers(function).script()
