"""Temporary folders, which are removed later where the process that made them was killed."""

import atexit
import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from collage_dsl.reading import real_path

_PREFIX = ".collage-"
_NAME = re.compile(re.escape(_PREFIX) + "[0-9a-f]{12}")


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """
    A new folder in `parent`, which is removed at the end of the block.

    It is locked until then. The system releases the lock of a process that is killed, and
    the next process that makes a scratch folder in `parent`, or sweeps it, removes the folder.
    """
    sweep(parent)
    folder, lock = _claimed(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(parent: Path) -> None:
    """
    Remove the scratch folders in `parent` that no living process uses.

    A folder is left where it is if it is another user's, if it is locked, or if the file system
    has no locks.
    """
    with suppress(OSError), os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name)]
        for folder in found:
            with suppress(OSError):
                _remove_unused(folder)


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """
    Where to write what replaces the file `path` at the end of the block, unless it raises.

    The file has its old or its new content at any moment. It keeps its mode, and a link
    remains a link. What is no regular file, such as `/dev/stdout`, is written directly.
    """
    if _is_written_directly(path):
        yield path
        return
    path = real_path(path)
    with scratch_folder(path.parent) as scratch:
        new = scratch / path.name
        yield new
        with suppress(FileNotFoundError):
            new.chmod(stat.S_IMODE(path.stat().st_mode))
        new.replace(path)


def check_file(path: Path) -> None:
    """Raise OSError if `replacement` cannot write the file `path`. Nothing is left behind."""
    if not _is_written_directly(path):
        with scratch_folder(real_path(path).parent), suppress(FileNotFoundError):
            path.stat()  # fails for a link that leads to itself


def check_folder(folder: Path) -> Path:
    """
    The folder, or else the nearest one above it that exists. Raises OSError if nothing can be
    written there. Nothing is left behind.
    """
    folder = real_path(folder)
    existing = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    with scratch_folder(existing):
        return existing


def keep_temporary_files_together() -> None:
    """
    From now on, put all temporary files of this process and of its children into one scratch
    folder, which is removed when this process ends.
    """
    stack = ExitStack()
    folder = stack.enter_context(scratch_folder(Path(tempfile.gettempdir())))
    os.environ["TMPDIR"] = str(folder)
    # A short name of the folder: the path of a socket has at most 107 bytes.
    tempfile.tempdir = f"/proc/{os.getpid()}/fd/{os.open(folder, os.O_RDONLY)}"
    # What is registered later, such as by multiprocessing, runs before and still finds its files.
    atexit.register(stack.close)
    _TOGETHER.append(folder)


_TOGETHER: list[Path] = []
"""The folder with all temporary files of this process, once there is one."""


def remove_temporary_files() -> None:
    """Do at once what the end of this process would do, for a process that ends without it."""
    for folder in _TOGETHER:
        shutil.rmtree(folder, ignore_errors=True)


def _claimed(parent: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor that holds its lock."""
    while True:
        folder = parent / f"{_PREFIX}{os.urandom(6).hex()}"
        try:
            folder.mkdir(0o700)
        except OSError as error:
            error.filename = str(parent)
            raise
        # Until it is locked, another process may take the folder for one that is not used.
        with suppress(FileNotFoundError, BlockingIOError):
            return folder, _locked(folder, or_unlocked=True)


def _is_written_directly(path: Path) -> bool:
    """Whether `path` is a device or a pipe. Raises OSError for a folder."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return path.exists() and not path.is_file()


def _remove_unused(folder: Path) -> None:
    if folder.lstat().st_uid == os.geteuid():
        lock = _locked(folder)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(folder: Path, *, or_unlocked: bool = False) -> int:
    """
    A descriptor of the folder that holds its lock. Raises `BlockingIOError` if another process has
    locked it, `FileNotFoundError` if another has removed it, and `OSError` if the file
    system has no locks, unless it may remain unlocked then.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.stat()
    except OSError as error:
        if or_unlocked and not isinstance(error, BlockingIOError | FileNotFoundError):
            return descriptor
        os.close(descriptor)
        raise
    return descriptor
