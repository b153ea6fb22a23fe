"""
Compile the C++ sources of this folder once, and make runtime modules with them.

The object file of the runtime modules is linked into every library that is exported with such
modules inside: TVM's `export_library` finds it in a module that `code_module` makes. Both object
files are linked with `executable.export_library(path, addons=addons())`. The shared library is used
in this process.
"""

import ctypes
import hashlib
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm_ffi import libinfo

from collage_dsl.backends.engines import register_declared
from collage_dsl.backends.runtime.guarded import run_guarded
from collage_dsl.caches import cache_folder, make_cache
from collage_dsl.graph.arrays import Array
from collage_dsl.scratch import replacement, sweep

KIND = "collage.kernel.v2"
"""The kind of the runtime module. Its number is the version of the byte format."""

_JOIN = "collage.kernel.join.v2"

CODE_KIND = "collage.kernel.code.v2"
"""The kind of the module that `code_module` makes."""

_SOURCES = tuple(Path(__file__).with_name(f"{name}.cc") for name in ("kernel_module", "cores"))
_HEADER = Path(__file__).with_name("stay_loaded.h")
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread")
_SHOWN_LINES = 20


class NoCompiler(OSError):  # noqa: N818, reads as what it says
    """There is no C++ compiler, which is needed once to compile and link our C++ sources."""


class CompileError(OSError):
    """The C++ compiler failed; the message is its output, shortened."""


def make_module(symbol: str, engine: str, payload: bytes, constants: Mapping[str, Array]) -> Any:
    """
    The runtime module whose function `symbol` is run by `engine` from `payload`.

    The module shares the memory of `constants` and keeps them alive, so do not write to them.
    The engine is looked up when the function is first looked up.
    """
    register_declared()
    create = _create_function()
    return create(symbol, engine, payload, {n: _tensor(a) for n, a in constants.items()})


def joined(modules: Sequence[Any]) -> Any:
    """One runtime module of several that `make_module` made. It has equal constants once."""
    load()
    return tvm_ffi.get_global_func(_JOIN)(list(modules))


def code_module() -> Any:
    """
    A runtime module without functions. A library that is exported with it has the code of the
    modules that `make_module` makes, so that a process which has only TVM can load it.
    """
    load()
    return tvm_ffi.get_global_func(CODE_KIND)(objects()[0].read_bytes())


def addons() -> list[str]:
    """The argument `addons` of `export_library`. A new list each time: TVM appends to it."""
    return [str(path) for path in objects()]


def objects() -> list[Path]:
    """The object files, from the cache or compiled now."""
    return [_cached(f"{source.stem}.o", partial(_compile, source)) for source in _SOURCES]


def kernel_library() -> Path:
    """The shared library, from the cache or linked now."""
    return _cached("kernel_module.so", _link)


@cache
def _create_function() -> Callable[..., Any]:
    load()
    return tvm_ffi.get_global_func(KIND)


@cache
def load() -> None:
    """Load the shared library into this process; it registers its functions."""
    ctypes.CDLL(str(kernel_library()))


def _tensor(array: Array) -> Any:
    plain = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    if np.dtype(plain.dtype.type).isbuiltin != 1:  # such as bfloat16, which numpy does not exchange
        return tvm.runtime.tensor(plain)
    # The versioned protocol also accepts read-only arrays; loaded weights are often read-only.
    return tvm_ffi.from_dlpack(plain.__dlpack__(max_version=(1, 0)))


def _cached(name: str, make: Callable[[Sequence[str], Path], None]) -> Path:
    compiler = _compiler()
    made = _cache_folder(compiler) / name
    sweep(made.parent)
    if not made.exists():
        make_cache(made.parent)
        with replacement(made) as new:
            make(compiler, new)
    return made


def _cache_folder(compiler: Sequence[str]) -> Path:
    made_of = (
        *(path.read_text(encoding="utf-8") for path in (*_SOURCES, _HEADER)),
        tvm_ffi.__version__,
        " ".join((*compiler, *_FLAGS)),
        _version(tuple(compiler)),
    )
    key = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:16]
    return cache_folder() / "kernel_module" / key


def _compiler() -> tuple[str, ...]:
    named = os.environ.get("CXX") or "g++"
    try:
        command = shlex.split(named)
    except ValueError:  # a quotation without end
        command = []
    if not command or shutil.which(command[0]) is None:
        raise NoCompiler(
            f"no C++ compiler `{named}`: install one (say `apt install g++`) "
            "or set CXX to the one to use"
        )
    return tuple(command)


@cache
def _version(compiler: tuple[str, ...]) -> str:
    return _run([*compiler, "--version"])


def _compile(source: Path, compiler: Sequence[str], target: Path) -> None:
    includes = [f"-I{path}" for path in libinfo.include_paths()]
    _run([*compiler, *_FLAGS, *includes, "-c", str(source), "-o", str(target)])


def _link(compiler: Sequence[str], target: Path) -> None:
    # Not linked to libtvm_ffi: every process that loads this has it already, with global symbols.
    made = [str(path) for path in objects()]
    _run([*compiler, "-shared", "-pthread", *made, "-o", str(target)])


def link(target: str, objects: Sequence[str], options: Sequence[str] = ()) -> None:
    """
    Link a shared library, as `fcompile` of TVM's `export_library`. That gives C sources of backends
    too, and then `options`: the folders of its headers.
    """
    _run([*_compiler(), "-shared", "-fPIC", "-O2", *options, "-o", target, *objects])


def _run(command: Sequence[str]) -> str:
    done = run_guarded(command)
    if done.returncode != 0:
        said = done.stderr.splitlines()
        shown = said[:_SHOWN_LINES] + ["…"] * (len(said) > _SHOWN_LINES)
        raise CompileError("\n".join([f"`{shlex.join(command)}` failed:", *shown]))
    return done.stdout
