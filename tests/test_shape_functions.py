"""Sizes that are computed as a model runs."""

import pytest
import tvm
from tvm import relax, tirx

from collage_dsl.realization.shape_functions import with_shape_functions


def sizes_of(count: int) -> tvm.IRModule:
    """A module that takes one size and gives `count` others."""
    n = tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    with builder.function("main", [relax.Var("s", relax.ShapeType([n]))]):
        sizes = [n + number for number in range(1, count + 1)]
        builder.emit_func_output(relax.ShapeExpr(sizes))
    return builder.get()


@pytest.mark.parametrize("count", [1, 30])
def test_sizes_are_computed_in_the_order_of_their_places(count: int) -> None:
    """TVM computes them in the order of addresses, so that no two libraries were the same."""
    module = with_shape_functions(sizes_of(count))

    body = module["shape_func"].body
    stores = body.seq if isinstance(body, tirx.SeqStmt) else [body]
    assert [int(store.indices[0]) for store in stores] == list(range(1, count + 1))
