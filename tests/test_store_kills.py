"""What a store has said that it keeps is there after its process was killed in mid-write."""

import os
import random
import select
import signal
import struct
import time
from pathlib import Path

import pytest

from collage_dsl.cost import CostStore, Measurement

_NUMBER = struct.Struct("<q")
_LONGEST = 0.02
"""The most seconds until a process is killed. In this time it writes some hundred costs."""


def write_until_killed(path: Path, first: int, acknowledged: int) -> None:
    """Put costs into a store, and say of each that it was put."""
    with CostStore(path) as store:
        number = first
        while True:
            store.put(Measurement(f"kernel {number}", "context", "nn.relu" * 40, float(number)))
            os.write(acknowledged, _NUMBER.pack(number))
            number += 1


def killed_after(seconds: float, path: Path, first: int) -> int:
    """The number after the last that a killed process has acknowledged."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            write_until_killed(path, first, write)
        finally:
            os._exit(1)
    os.close(write)
    select.select([read], [], [], 30)  # Until it writes.
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status), "the process ended by itself"
    content = b""
    while part := os.read(read, 1 << 16):
        content += part
    os.close(read)
    return first + len(content) // _NUMBER.size


def check(path: Path, kills: int) -> None:
    generator, count = random.Random(0), 0
    for _ in range(kills):
        first = count
        count = killed_after(generator.uniform(0, _LONGEST), path, first)
        with CostStore(path) as store:
            assert store.faults() == []
            # One more may have been written that was not acknowledged.
            assert count <= len(store) <= count + 1
            assert all(store.get(f"kernel {n}", "context") == n for n in range(first, count))
            count = len(store)
    assert count > kills


def test_a_few_kills_in_mid_write_lose_nothing(tmp_path: Path) -> None:
    check(tmp_path / "costs.sqlite", 20)


@pytest.mark.slow
def test_a_thousand_kills_in_mid_write_lose_nothing(tmp_path: Path) -> None:
    check(tmp_path / "costs.sqlite", 1_000)
