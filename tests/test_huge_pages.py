"""Weights are on huge pages, where the system has any, with the same contents."""

import mmap
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from collage_dsl.realization import huge_pages
from collage_dsl.realization.huge_pages import put_on_huge_pages

MIB = 1 << 20


def tensors(count: int) -> list[Any]:
    """`count` tensors of one MiB side by side, in memory that nothing else has used."""
    memory = mmap.mmap(-1, count * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    numbers = np.frombuffer(memory, np.float32).reshape(count, 256, 1024)
    numbers[:] = np.random.default_rng(0).random(numbers.shape, np.float32)
    return [tvm_ffi.from_dlpack(each) for each in numbers]


def on_huge_pages(made: Sequence[Any]) -> int:
    """The bytes on huge pages of the mapping that has the middle one of some tensors."""
    wanted = made[len(made) // 2].data_ptr()
    mappings = Path("/proc/self/smaps").read_text()
    entry = r"^([0-9a-f]+)-([0-9a-f]+) .*?^AnonHugePages: +(\d+) kB"
    for begin, end, huge in re.findall(entry, mappings, re.MULTILINE | re.DOTALL):
        if int(begin, 16) <= wanted < int(end, 16):
            return int(huge) * 1024
    raise AssertionError("the tensor is in no mapping")


def test_small_tensors_that_are_side_by_side_share_huge_pages() -> None:
    made = tensors(40)
    before = [(each.data_ptr(), np.from_dlpack(each).copy()) for each in made]
    put_on_huge_pages(made)
    for each, (place, content) in zip(made, before, strict=True):
        assert each.data_ptr() == place
        np.testing.assert_array_equal(np.from_dlpack(each), content)
    assert on_huge_pages(made) >= (36 * MIB if huge_pages._huge_page_size() else 0)


@pytest.mark.parametrize("said", ["always madvise [never]\n", None])
def test_a_system_without_huge_pages_is_asked_for_none(
    said: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    enabled = tmp_path / "enabled"
    if said:
        enabled.write_text(said)
    monkeypatch.setattr(huge_pages, "_ENABLED", enabled)
    huge_pages._huge_page_size.cache_clear()
    made = tensors(40)
    before = on_huge_pages(made)
    put_on_huge_pages(made)
    assert on_huge_pages(made) == before
    huge_pages._huge_page_size.cache_clear()
