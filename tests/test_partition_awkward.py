"""Nothing in a module stops the pass: what cannot be in a kernel stays as it is."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812, F841, SIM108

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from tests.partitioned import LEGALIZE, assert_same_results
from tests.test_partition_pass import FUSED, array, callees, names, partitioned, spec

EVERYTHING = f"union({FUSED}, op_call_by_kind(opaque))"


@I.ir_module
class Awkward:
    @R.function
    def recursive(n: R.Tensor((), "int64"), x: R.Tensor((4,), "float32")) -> R.Tensor(
        (4,), "float32"
    ):
        cls = Awkward
        with R.dataflow():
            stop = R.equal(n, R.const(0, "int64"))
            less = R.subtract(n, R.const(1, "int64"))
            twice = R.add(x, x)
            R.output(stop, less, twice)
        if stop:
            result = R.add(x, R.const(0, "float32"))
        else:
            result = cls.recursive(less, twice)
        return result

    @R.function
    def main(x: R.Tensor((4,), "float32"), s: R.Tensor((2, 4), "float32")) -> R.Tuple(
        R.Tensor((4,), "float32"), R.Tensor((4,), "float32"), R.Tensor("float32", ndim=1)
    ):
        cls = Awkward

        @R.function
        def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                a = R.exp(y)
                b = R.add(a, x)
                R.output(b)
            return b

        with R.dataflow():
            three = R.const(3, "int64")
            c = R.nn.relu(x)
            nested = ((c, x), c)
            first = nested[0]
            d = first[0]
            alias = d
            e = R.tanh(alias)
            shape = R.shape_of(e)
            f = R.exp(s)
            g = R.reshape(f, R.shape([8]))
            R.output(e, g, three)
        h = inner(e)
        i = cls.recursive(three, h)
        with R.dataflow():
            j = R.unique(g)
            k = R.exp(j)
            R.output(k)
        return (h, i, k)


@pytest.mark.parametrize("rules", [FUSED, EVERYTHING])
def test_closures_recursion_nested_tuples_and_unknown_shapes(rules: str) -> None:
    result = partitioned(Awkward, spec(rules))
    inner = result["main"].body.blocks[0].bindings[0].value

    assert callees(inner.body.blocks[0]) == ["tvm_exp_add"]
    assert {"tvm_relu", "tvm_tanh", "tvm_exp_reshape"} <= names(result)
    last = callees(result["main"].body.blocks[-1])
    assert last == ["relax.unique", "relax.exp"]


@I.ir_module
class Nested:
    @R.function
    def main(
        x: R.Tensor((4,), "float32"),
    ) -> R.Tuple(R.Tensor((4,), "float32"), R.Tuple(R.Tensor((4,), "float32"))):
        with R.dataflow():
            c = R.nn.relu(x)
            nested = ((c, x), c)
            first = nested[0]
            d = first[0]
            alias = d
            e = R.tanh(alias)
            h = R.exp(c)
            g = (h,)
            R.output(e, g)
        return (e, g)


@pytest.mark.parametrize("rules", [FUSED, "op_call_by_kind()"])
def test_tuples_in_tuples_are_what_they_were(rules: str) -> None:
    result = partitioned(Nested, spec(rules, "limits { max_exits 3; taps true; }"))

    # FuseTIR refuses the module as it was.
    assert_same_results(result, Nested, array(4), kernels=LEGALIZE)


@I.ir_module
class Impure:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), o: R.Object) -> R.Tuple(
        R.Tensor((4,), "float32"), R.Object
    ):
        y = R.exp(x)
        shown = R.print(y, format="{}")
        with R.dataflow():
            z = R.call_dps_packed("somewhere", (y,), out_ty=R.Tensor((4,), "float32"))
            w = R.exp(z)
            q = R.call_pure_packed("elsewhere", w, ty_args=(R.Object,))
            R.output(w, q)
        return (w, q)


def test_calls_of_packed_functions_stay() -> None:
    result = partitioned(Impure, spec(EVERYTHING))
    main = result["main"]

    assert not main.is_pure
    assert callees(main.body.blocks[0]) == ["relax.exp", "relax.print"]
    assert callees(main.body.blocks[1]) == [
        "relax.call_dps_packed",
        "tvm_exp",
        "relax.call_pure_packed",
    ]


def test_an_empty_module_and_an_empty_function() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(x)

    for module in (tvm.IRModule({}), builder.get()):
        assert partitioned(module, spec(EVERYTHING)).same_as(module)


@I.ir_module
class Interleaved:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tuple(
        R.Tensor((4,), "float32"), R.Tensor((4,), "float32")
    ):
        cls = Interleaved
        with R.dataflow():
            a = R.exp(x)
            b = cls.other(a)
            c = R.nn.relu(a)
            d = R.add(b, c)
            e = R.negative(c)
            R.output(d, e)
        return (d, e)

    @R.function
    def other(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return x


def test_no_kernel_waits_for_itself_through_the_call_of_a_function() -> None:
    result = partitioned(Interleaved, spec(EVERYTHING, "limits { max_exits 3; taps true; }"))
    called = callees(result["main"].body.blocks[0])

    assert [name.split("_")[1] for name in called if name != "other"] == ["exp", "relu"]
    assert called[1] == "other", "after exp, and before what adds its result"
    assert_same_results(result, Interleaved, array(4))
