"""Nothing in a module stops the pass: what cannot be in a kernel stays as it is."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812, F841, SIM108

import numpy as np
import pytest
import tvm
from numpy.testing import assert_allclose
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import collage_dsl as collage
from tests.partitioned import LEGALIZE, LLVM, assert_same_results, run
from tests.test_partition_pass import FUSED, array, callees, names, partitioned, price, spec

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


@I.ir_module
class Split:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tuple(
        R.Tensor((2, 4), "float32"),
        R.Tuple(
            R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float32")),
            R.Tensor((4, 4), "float32"),
        ),
    ):
        with R.dataflow():
            halves = R.split(x, 2, axis=0)
            second = halves[1]
            a = R.tanh(second)
            pair = (halves, x)
            R.output(a, pair)
        return (a, pair)


@pytest.mark.parametrize("rules", [FUSED, "max_coalesce(op_call_by_kind())"])
def test_what_a_call_gives_as_a_tuple_may_be_in_a_tuple(rules: str) -> None:
    result = partitioned(Split, spec(rules, "limits { max_exits 3; taps true; }"))

    assert len(names(result)) > 1
    assert_same_results(result, Split, array(4, 4), kernels=LEGALIZE)


@I.ir_module
class Local:
    @R.function
    def main(x: R.Tensor((4,), "float32"), stop: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        with R.dataflow():

            @R.function
            def repeated(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                with R.dataflow():
                    a = R.exp(y)
                    b = R.add(a, x)
                    R.output(b)
                if stop:
                    c = R.negative(b)
                else:
                    c = repeated(b)
                return c

            d = R.tanh(x)
            e = repeated(d)
            R.output(e)
        return e


def test_a_function_in_a_dataflow_block_is_partitioned_and_may_call_itself() -> None:
    result = partitioned(Local, spec(FUSED))
    inner = result["main"].body.blocks[0].bindings[0].value

    assert callees(inner.body.blocks[0]) == ["tvm_exp_add"]
    assert names(result) == {"main", "tvm_exp_add", "tvm_tanh"}


@I.ir_module
class InPlace:
    @T.prim_func(private=True, s_tir=True)
    def double(x: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("double"):
                v_i = T.axis.remap("S", [i])
                x[v_i] = x[v_i] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = InPlace
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            c = R.call_tir_inplace(
                cls.double, (a,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32")
            )
            d = R.add(b, c)
            R.output(d)
        return d


@pytest.mark.parametrize("rules", [FUSED, "max_coalesce(op_call_by_kind())"])
def test_what_is_read_before_a_call_in_place_is_read_before_it(rules: str) -> None:
    result = partitioned(InPlace, spec(rules, "limits { max_exits 3; taps true; }"))

    assert callees(result["main"].body.blocks[0])[-2:] == ["relax.call_tir_inplace", "tvm_add"]
    assert_same_results(result, InPlace, array(4))


@I.ir_module
class Number:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        with R.dataflow():
            at_least_four = R.prim_value(T.if_then_else(n > 3, n, T.int64(4)))
            a = R.exp(x)
            R.output(a)
        return a


def test_calls_that_give_a_number_stay() -> None:
    result = partitioned(Number, spec(EVERYTHING))

    assert callees(result["main"].body.blocks[0]) == ["prim.if_then_else", "tvm_exp"]


@I.ir_module
class NoLoops:
    @R.function
    def main(
        boxes: R.Tensor((1, 6, 4), "float32"), scores: R.Tensor((1, 1, 6), "float32")
    ) -> R.Tuple(R.Tensor((6, 3), "int64"), R.Tensor((1, 6, 4), "float32")):
        with R.dataflow():
            a = R.grad.no_grad(boxes)
            b = R.grad.start_checkpoint(a)
            c = R.nn.relu(b)
            d = R.grad.end_checkpoint(c)
            e = R.vision.all_class_non_max_suppression(
                d, scores, R.const(3, "int64"), R.const(0.5, "float32"), R.const(0, "float32")
            )
            f = e[0]
            g = R.exp(d)
            R.output(f, g)
        return (f, g)


def test_operators_of_which_tvm_makes_no_single_function_stay() -> None:
    result = partitioned(NoLoops, spec(EVERYTHING))
    boxes, scores = abs(array(1, 6, 4)), array(1, 1, 6, seed=1)

    assert names(result) == {"main", "tvm_relu", "tvm_exp"}
    expected = run(NoLoops, boxes, scores, kernels=LEGALIZE)
    executable = tvm.compile(NoLoops, LLVM, relax_pipeline=collage.pipeline(["native"], price))
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](
        tvm.runtime.tensor(boxes), tvm.runtime.tensor(scores)
    )
    for actual, wanted in zip(found, expected, strict=True):
        assert_allclose(actual.numpy(), wanted, rtol=1e-5)


@I.ir_module
class Lifted:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32")) -> R.Tensor(
        (4, 8), "float32"
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.permute_dims(w)
            b = R.builtin.stop_lift_params(a)
            c = R.exp(b)
            d = R.matmul(x, c)
            R.output(d)
        return d


@pytest.mark.parametrize("first", ["the pass", "LiftTransformParams"])
def test_what_stops_lifting_is_in_no_kernel(first: str) -> None:
    partition = collage.CollagePartition(["native"], cost=price)
    passes = [partition, relax.transform.LiftTransformParams()]
    module = tvm.transform.Sequential(passes if first == "the pass" else passes[::-1])(Lifted)
    x, w = array(4, 8), array(8, 8, seed=1)

    executable = tvm.compile(module, LLVM, relax_pipeline=collage.lowering())
    machine = relax.VirtualMachine(executable, tvm.cpu())
    (lifted,) = machine["main_transform_params"](tvm.runtime.convert([tvm.runtime.tensor(w)]))
    found = machine["main"](tvm.runtime.tensor(x), lifted)

    assert_allclose(lifted.numpy(), w.T)
    assert_allclose(found.numpy(), x @ np.exp(w.T), rtol=1e-5)
