"""Relax functions that say which sizes their dimensions can have, as `from_exported_program`."""

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op

import collage_dsl as collage


def steps(**attrs: Any) -> Any:
    """
    A function that counts, in each row of `x`, the numbers that are not one more than those before.
    Language models number packed sequences so. TVM cannot tell the shape of the difference.
    """
    b, n = tirx.Var("b", "int64"), tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((b, n), "int64"))
    one = relax.const(1, "int64")
    builder = relax.BlockBuilder()
    with builder.function("main", [x], attrs=attrs):
        with builder.dataflow():
            start = builder.emit(op.strided_slice(x, [1], [0], [1], [1]))
            row = builder.emit(op.concat([builder.emit(op.subtract(start, one)), x], -1))
            before = builder.emit(op.strided_slice(row, [-1], [0], [n], [1]))
            after = builder.emit(op.strided_slice(row, [-1], [1], [n + 1], [1]))
            is_new = builder.emit(op.not_equal(op.subtract(after, before), one))
            result = builder.emit_output(op.cumsum(is_new, axis=-1, dtype="int64"))
        builder.emit_func_output(result)
    return builder.get()


BOUNDS = {"tir_var_lower_bound": {"b": 1, "n": 2}, "tir_var_upper_bound": {"n": 64}}


@pytest.mark.parametrize("attrs", [BOUNDS, {"tir_var_lower_bound": {"n": 1}}])
def test_a_shape_that_follows_from_the_bounds_is_known(attrs: dict[str, Any]) -> None:
    pipeline = collage.pipeline(["native"], cost=lambda kernel: 1e-5 * len(kernel.nodes))

    module = steps(**attrs)
    executable = tvm.compile(module, tvm.target.Target("llvm"), relax_pipeline=pipeline)

    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for size in (2, 9, 30):
        x = np.cumsum(np.random.default_rng(size).random((3, size)) > 0.3, axis=1)
        wanted = np.cumsum(np.diff(x, prepend=x[:, :1] - 1) != 1, axis=1)
        np.testing.assert_array_equal(main(tvm.runtime.tensor(x)).numpy(), wanted)


def test_running_the_pass_again_changes_nothing() -> None:
    partition = collage.CollagePartition(["native"], cost=lambda kernel: 1e-5)

    once = partition(steps(**BOUNDS))

    assert tvm_ffi.structural_equal(partition(once), once)


def test_a_function_without_bounds_stays_as_it_is() -> None:
    module = steps()
    partition = collage.CollagePartition(["native"], cost=lambda kernel: collage.Infeasible("no"))

    assert tvm_ffi.structural_equal(partition(module), module)
