import pytest
import tvm

from collage_dsl.backends.schedule.machine import Machine, machine_of
from collage_dsl.backends.schedule.tiling import register_tile


def test_a_tile_has_one_vector_only_where_scalars_are_read_twice_as_fast() -> None:
    def vectors(broadcasts: int) -> int:
        machine = Machine(lanes=16, registers=32, cores=1, broadcasts=broadcasts)
        return register_tile(64, 203, 144, True, 16, machine)[0].vectors

    assert vectors(2) == 1
    assert vectors(1) > 1


@pytest.mark.parametrize(("cpu", "broadcasts"), [("znver4", 2), ("znver5", 1), ("znver3", 1)])
def test_how_fast_scalars_are_read_follows_from_the_processor(cpu: str, broadcasts: int) -> None:
    assert machine_of(tvm.target.Target({"kind": "llvm", "mcpu": cpu})).broadcasts == broadcasts
