"""The name of the processor of this machine, and the size of its last-level cache."""

from functools import cache
from pathlib import Path


@cache
def last_level_cache_bytes() -> int:
    """The size of the largest cache of the first core; 32 MiB if the system does not say."""
    sizes = [
        _bytes(path.read_text())
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    ]
    return max(sizes, default=32 << 20)


def _bytes(size: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number = size.strip()
    return int(number[:-1]) * units[number[-1]] if number[-1] in units else int(number)


@cache
def cpu_name() -> str:
    """The model name of the processor, as the system gives it."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown processor")
