"""Calls that write to their arguments: what is read before a write, and what stays in memory."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import collage_dsl as collage
from collage_dsl.realization import partition as partition_module
from tests.test_lowering import lowered, run

pytestmark = pytest.mark.engine

X = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)


@I.ir_module
class InPlace:
    @T.prim_func(private=True, s_tir=True)
    def double(x: T.Buffer((T.int64(4), T.int64(8)), "float32")):
        for i, j in T.grid(T.int64(4), T.int64(8)):
            with T.sblock("double"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                x[v_i, v_j] = x[v_i, v_j] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tuple(
        R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32")
    ):
        cls = InPlace
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            r = R.tanh(a)
            c = R.call_tir_inplace(
                cls.double, (a,), inplace_indices=[0], out_ty=R.Tensor((4, 8), "float32")
            )
            d = R.add(b, r)
            e = R.add(d, c)
            R.output(c, e)
        return (c, e)


@I.ir_module
class InBranch:
    @T.prim_func(private=True, s_tir=True)
    def double(x: T.Buffer((T.int64(4), T.int64(8)), "float32")):
        for i, j in T.grid(T.int64(4), T.int64(8)):
            with T.sblock("double"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                x[v_i, v_j] = x[v_i, v_j] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4, 8), "float32"), stop: R.Tensor((), "bool")) -> R.Tuple(
        R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32")
    ):
        cls = InBranch
        if stop:
            result = (x, x)
        else:
            with R.dataflow():
                a = R.exp(x)
                b = R.negative(a)
                r = R.tanh(a)
                c = R.call_tir_inplace(
                    cls.double, (a,), inplace_indices=[0], out_ty=R.Tensor((4, 8), "float32")
                )
                d = R.add(b, r)
                e = R.add(d, c)
                both = (c, e)
                R.output(both)
            result = both
        return result


@pytest.mark.parametrize(("module", "more"), [(InPlace, ()), (InBranch, (np.array(False),))])
@pytest.mark.parametrize("build", [lowered, run])
def test_what_is_read_before_a_write_is_read_before_it(
    build: Any, module: tvm.IRModule, more: tuple[Any, ...]
) -> None:
    actual = build(module, X, *more)

    a = np.exp(X)
    for value, expected in zip(actual, (2 * a, -a + np.tanh(a) + 2 * a), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def packed() -> tvm.IRModule:
    """A tensor that a packed function writes to, and then much that needs memory."""
    builder, op = relax.BlockBuilder(), relax.op
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    emit = builder.emit
    with builder.function("main", [x]):
        with builder.dataflow():
            a = emit(op.exp(x))
            b = emit(op.call_inplace_packed("test.add_one", a, inplace_indices=[0], ty_args=[x.ty]))
            square = emit(op.matmul(emit(op.permute_dims(x)), x))
            c = emit(op.nn.softmax(emit(op.matmul(x, square))))
            d = emit(op.nn.softmax(emit(op.matmul(c, square))))
            result = builder.emit_output(op.add(b, d))
        builder.emit_func_output(result)
    return builder.get()


@pytest.fixture
def add_one() -> Any:
    def function(x: Any) -> Any:
        return x.copyfrom(x.numpy() + 1)

    tvm_ffi.register_global_func("test.add_one", function, override=True)
    yield
    tvm_ffi.registry.remove_global_func("test.add_one")


@pytest.mark.usefixtures("add_one")
@pytest.mark.parametrize("build", [lowered, run])
def test_the_memory_of_what_a_packed_function_has_written_is_used_for_nothing_else(
    build: Any,
) -> None:
    def softmax(x: Any) -> Any:
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    (actual,) = build(packed(), X)

    square = X.T @ X
    expected = np.exp(X) + 1 + softmax(softmax(X @ square) @ square)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_a_block_with_many_writes_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    plain = partition_module.values_in

    def counted(binding: Any) -> Any:
        nonlocal count
        count += 1
        return plain(binding)

    monkeypatch.setattr(partition_module, "values_in", counted)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y: Any = x
            for _ in range(10):
                y = builder.emit(
                    relax.op.call_inplace_packed(
                        "test.write", y, inplace_indices=[0], ty_args=[x.ty]
                    )
                )
            y = builder.emit_output(y)
        builder.emit_func_output(y)

    collage.CollagePartition(["native"], cost=lambda _: 1e-6)(builder.get())

    bindings = 11
    assert count == bindings
