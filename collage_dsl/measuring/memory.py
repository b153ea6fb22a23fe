"""The memory that one kernel may take while it is built and timed."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

_SHARE = 2
"""A kernel may take this part of the memory of the machine, unless another limit is given."""

GIB = 1 << 30

_GROUPS = Path("/sys/fs/cgroup")

_SAID = ("bad_alloc", "out of memory", "cannot allocate memory", "failed to allocate")
"""What libraries say, in lower case, when they get no more memory."""


def default_limit() -> int:
    """Half of the memory of this machine, or of the control group, if that has less; in bytes."""
    return min((*_group_limits(), _machine_memory())) // _SHARE


def set_limit(limit: int) -> None:
    """
    Let this process, and each that it starts, have at most `limit` bytes of data.

    Data are all pages that only this process can write to. Address space that a library reserves
    and does not use (LLVM, CUDA) does not count.
    """
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))


def says_no_memory(text: str) -> bool:
    """Whether a message of a library says that there was no memory left."""
    return any(words in text.lower() for words in _SAID)


def exhausted(limit: int) -> str:
    """The reason why a kernel is refused that takes more than `limit` bytes."""
    return f"took more than {limit / GIB:.3g} GiB of memory"


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _group_limits() -> Iterator[int]:
    """The limits of the control group of this process, and of those that it is in."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    names = [line.removeprefix("0::").strip("/") for line in lines if line.startswith("0::")]
    for name in names:
        folder = _GROUPS / name
        for each in (folder, *folder.parents):
            try:
                text = (each / "memory.max").read_text().strip()
            except OSError:
                continue
            if text.isdigit():
                yield int(text)
