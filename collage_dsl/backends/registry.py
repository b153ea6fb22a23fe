"""Find a backend by its name, among given ones and those that packages declare."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from collage_dsl.backends.base import Backend, LibraryBackend, Placement
from collage_dsl.declared import declared, described, loaded, unknown, without_faults
from collage_dsl.graph import Graph, Option, Toolchain

BackendOf = Callable[[Toolchain], Backend]
"""Returns the backend that makes the kernels of a toolchain."""

NATIVE = "tvm"
"""The backend of targets that name no compiler: TVM itself."""

NATIVE_GPU = "tvm_gpu"
"""The same for targets on GPUs."""

GPU_KINDS = ("cuda", "rocm", "vulkan", "metal", "opencl", "webgpu")
"""The kinds of TVM targets whose code runs on GPUs."""

GROUP = "collage_dsl.backends"
"""The group of entry points in which packages declare backends, by name."""

BUILT_IN = {
    "onnxruntime": "collage_dsl.backends.onnxruntime:OnnxRuntime",
    NATIVE: "collage_dsl.backends.tvm:Tvm",
    NATIVE_GPU: "collage_dsl.backends.gpu:Gpu",
}
"""The backends of collage_dsl itself by name, which no package can replace."""


class UnknownBackend(Exception):  # noqa: N818, reads as what it says
    """No backend has the name that a spec or a caller gives."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(set(known)))
        super().__init__(name, self.known)

    def __str__(self) -> str:
        return unknown("backend", self.name, self.known)


class BackendError(Exception):
    """A backend that an installed package declares cannot be used."""


NO_BACKEND = (UnknownBackend, BackendError, ModuleNotFoundError)
"""What `find_backend` raises."""


def find_backend(name: str, given: Iterable[Backend] = ()) -> Backend:
    """
    The backend named `name`: one of `given`, or else one that an installed package declares.

    A backend of ours comes before one of a package with its name. Raises UnknownBackend;
    ModuleNotFoundError if the library of a backend of ours is not installed; and BackendError if a
    package has declared what cannot be used.
    """
    by_name = {backend.name: backend for backend in given}
    if name in by_name:
        return by_name[name]
    declared = _declared()
    if name not in declared:
        raise UnknownBackend(name, (*by_name, *declared))
    point = declared[name]
    if name in BUILT_IN:
        ours: Backend = point.load()()
        return ours
    return _of_package(point)


def _of_package(point: EntryPoint) -> Backend:
    where = described("backend", point)
    make = loaded("backend", point, BackendError)
    made: object = without_faults(make, f"cannot make {where}", BackendError)
    if not isinstance(made, Backend):
        raise BackendError(f"{where} is no Backend, but of type {type(made).__name__}")
    if fault := without_faults(
        lambda: _fault(made, point.name), f"cannot use {where}", BackendError
    ):
        raise BackendError(f"cannot use {where}: {fault}")
    return made


def _fault(backend: Backend, declared_as: str) -> str:
    """What is wrong with the properties of a backend; empty if nothing is."""
    for name in ("name", "version"):
        if not isinstance(found := getattr(backend, name), str) or not found:
            return f"its `{name}` is {found!r}, and not a string"
    if backend.name != declared_as:
        return f"its `name` is `{backend.name}`, and the entry point has another name"
    for name in ("kinds", "variants"):
        found = getattr(backend, name)
        if not isinstance(found, tuple) or not all(isinstance(each, str) for each in found):
            return f"its `{name}` are {found!r}, and not a tuple of strings"
    if backend.variants and backend.placement is Placement.CODEGEN:
        return "it has `variants`, which only kernels that TVM makes can have"
    return ""


def refusal(backend: Backend, graph: Graph) -> str:
    """Why `backend` cannot run `graph`; empty if it can. Raises BackendError if it cannot say."""
    asked = "+".join(graph.operators(graph.calls))
    said = f"`supports` of the backend `{backend.name}`, asked about {asked}, has failed"
    answer: object = without_faults(lambda: backend.supports(graph), said, BackendError)
    if answer is None or isinstance(answer, str):
        return answer or ""
    raise BackendError(f"{said}: it returned {answer!r:.60}, and not None or a reason")


@dataclass(frozen=True, slots=True)
class Absent(LibraryBackend):
    """
    A compiler that no installed package provides. Its kernels are marked as kernels of a library,
    because TVM's own `RunCodegen` may know the compiler. They are not built or timed here.
    """

    called: str
    why: str = ""

    @property
    def name(self) -> str:
        return self.called

    @property
    def version(self) -> str:
        return "absent"

    def supports(self, graph: Graph) -> str | None:
        return self.why

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        raise ModuleNotFoundError(self.why)


def native_name(kind: str) -> str:
    """The backend of targets of a kind that name no compiler."""
    return NATIVE_GPU if kind in GPU_KINDS else NATIVE


def _name_of(toolchain: Toolchain) -> str:
    if toolchain.compiler in (None, NATIVE):
        return native_name(toolchain.kind)
    return toolchain.compiler


def installed(given: Iterable[Backend] = ()) -> BackendOf:
    """
    A function that finds the backend of a toolchain, once for each toolchain. It raises the same
    errors as `find_backend`.
    """
    before = tuple(given)
    found = cache(lambda compiler: find_backend(compiler, before))
    return lambda toolchain: found(_name_of(toolchain))


def known(given: Iterable[Backend] = ()) -> BackendOf:
    """A function that finds the backend of a toolchain; `Absent` if no package provides it."""
    find = installed(given)

    def known_backend(toolchain: Toolchain) -> Backend:
        try:
            return find(toolchain)
        except NO_BACKEND as error:
            return Absent(_name_of(toolchain), str(error))

    return known_backend


def backend_names(given: Iterable[Backend] = ()) -> tuple[str, ...]:
    """The names that `find_backend` knows, sorted."""
    return tuple(sorted({*(backend.name for backend in given), *_declared()}))


def _declared() -> Mapping[str, EntryPoint]:
    """
    The entry points by name.

    The built-in backends are included even if this package runs from a folder and is not installed.
    """
    built_in = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}
    return declared(GROUP) | built_in
