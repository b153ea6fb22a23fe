"""A fake device of kind `ext_dev`, and a library that runs kernels in its memory alone."""

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm_ffi import libinfo

from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.engines import pack, run_onnxruntime
from collage_dsl.backends.onnx_writer import to_onnx
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.backends.runtime.build import make_module
from collage_dsl.graph import Graph, Option

ENGINE = "test.fake_device"
_SOURCE = Path(__file__).with_suffix(".cc")


@cache
def load_device() -> None:
    """Have TVM find the device, and kernel modules the engine, in this process."""
    includes = [*libinfo.include_paths(), str(Path(tvm.__file__).parent / "include")]
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder, "fake_device.so"))
        command = ["g++", "-std=c++17", "-fPIC", "-shared", str(_SOURCE), "-o", library]
        subprocess.run([*command, *(f"-I{path}" for path in includes)], check=True)
        ctypes.CDLL(library)
    tvm_ffi.register_global_func(f"collage.engine.{ENGINE}", _kernel, override=True)


def copied() -> tuple[int, int]:
    """So many tensors were copied to the device so far, and from it."""
    load_device()
    names = ("copied_in", "copied_out")
    into, out = (tvm_ffi.get_global_func(f"fake_device.{name}")() for name in names)
    return into, out


def _kernel(symbol: str, payload: bytes, constants: Mapping[str, Any]) -> Callable[..., None]:
    run = run_onnxruntime(symbol, payload, constants)
    holds = tvm_ffi.get_global_func("fake_device.holds")

    def kernel(*tensors: Any) -> None:
        for place, tensor in enumerate(tensors):
            if not holds(tensor.data_ptr()):
                raise ValueError(f"tensor {place} of {symbol} is not in the memory of the device")
        arrays = [_view(tensor) for tensor in tensors]
        copies = [tvm.runtime.tensor(array) for array in arrays]
        run(*copies)
        for array, copy in zip(arrays, copies, strict=True):
            array[...] = copy.numpy()

    return kernel


def _view(tensor: Any) -> np.ndarray[Any, Any]:
    """The memory of a tensor, which numpy takes for that of the process, as it is."""
    shape, dtype = tuple(map(int, tensor.shape)), np.dtype(str(tensor.dtype))
    size = int(np.prod(shape)) * dtype.itemsize
    block = (ctypes.c_char * size).from_address(tensor.data_ptr())
    return np.frombuffer(block, dtype).reshape(shape)


@dataclass(frozen=True, slots=True)
class FakeLibrary(LibraryBackend):
    """Runs what onnxruntime does, on the fake device."""

    @property
    def name(self) -> str:
        return "fake"

    @property
    def version(self) -> str:
        return "1"

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("ext_dev",)

    def prepare(self) -> None:
        load_device()

    def supports(self, graph: Graph) -> str | None:
        return OnnxRuntime().supports(graph)

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        model, constants = to_onnx(graph)
        return make_module(symbol, ENGINE, pack(model.SerializeToString(), options), constants)


@dataclass(frozen=True, slots=True)
class WithoutDevice(FakeLibrary):
    """The same where nobody has told TVM of the device."""

    def prepare(self) -> None:
        return
