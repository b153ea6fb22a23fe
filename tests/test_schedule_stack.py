"""Sums stay in registers: TVM takes their buffers from the stack, in loops of several cores too."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import s_tir
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl.backends.schedule import schedule_variant
from collage_dsl.backends.schedule.loops import (
    load,
    loop,
    scoped,
    scratch,
    sequence,
    store,
    unrolled,
    vector,
)
from collage_dsl.backends.schedule.stack import on_stack
from tests.test_schedule import CORES, fused, native

LANES = 16


def buffers(body: Any) -> dict[str, int]:
    """The sizes of the buffers that a statement declares."""
    found: dict[str, int] = {}

    def note(block: Any) -> None:
        found.update({each.name: int(each.shape[0]) for each in block.alloc_buffers})

    tvm_ffi.structural_walk(body, (s_tir.SBlock, note))
    return found


def copied(size: int, through: Any) -> Any:
    """Two vectors copied by way of a local buffer, which `through` accesses."""
    source, target = scratch(64, "float32", "source"), scratch(64, "float32", "target")
    held = scratch(size, "float32", "held", "local")
    return scoped(
        [held],
        sequence(
            [
                through(lambda at: store(held, load(source, at), at)),
                through(lambda at: store(target, load(held, at), at)),
            ]
        ),
    )


def in_vectors(body: Any) -> Any:
    return unrolled(2, lambda j: vector(LANES, lambda lane: body(j * LANES + lane)))


def in_a_loop(body: Any) -> Any:
    return loop(2, lambda j: vector(LANES, lambda lane: body(j * LANES + lane)))


def across(body: Any) -> Any:
    return vector(LANES, lambda lane: body(8 + lane))


def of_two(body: Any) -> Any:
    return vector(LANES, lambda lane: body(lane * 2))


def test_each_vector_gets_a_buffer() -> None:
    assert buffers(on_stack(copied(32, in_vectors), LANES)) == {"held0": 16, "held1": 16}
    assert len(buffers(on_stack(copied(512, in_vectors), LANES))) == 32


@pytest.mark.parametrize("through", [in_a_loop, across, of_two])
def test_a_buffer_with_other_accesses_is_not_split(through: Any) -> None:
    small, large = (on_stack(copied(size, through), LANES) for size in (64, 512))

    assert buffers(small) == {"held": 64}
    assert "local" not in str(small)
    assert buffers(large) == {"held": 512}
    assert "local" in str(large)


def test_a_loop_that_declares_buffers_is_left_alone() -> None:
    def through(body: Any) -> Any:
        part = scratch(LANES, "float32", "part")

        def each(j: Any) -> Any:
            return scoped([part], vector(LANES, lambda lane: body(j * LANES + lane)))

        return unrolled(2, each)

    assert buffers(on_stack(copied(64, through), LANES)) == {"held": 64, "part": 16}


@CORES
@pytest.mark.parametrize(
    ("variant", "weight", "registers"),
    [
        ("winograd4", (64, 48, 3, 3), "sums"),
        ("winograd2", (64, 48, 3, 3), "sums"),
        ("gemm", (64, 48, 1, 1), "held"),
        ("direct", (64, 48, 3, 3), "held"),
    ],
)
def test_sums_of_convolutions_are_not_on_the_heap(
    variant: str, weight: tuple[int, ...], registers: str, cores: int
) -> None:
    function = fused([(1, 48, 28, 28), weight], lambda emit, x, w: R.nn.conv2d(x, w))
    made = schedule_variant(function, variant, target=native(cores)).function
    named = made.with_attr("global_symbol", "kernel")
    code = tvm.tirx.build(tvm.IRModule({"kernel": named}), native(cores)).inspect_source("ll")
    heap = re.findall(r"%(\w+) = (?:tail )?call ptr %\d+\(i32 1, ", code)

    assert heap
    assert not [name for name in heap if re.fullmatch(rf"{registers}\d*", name)]
