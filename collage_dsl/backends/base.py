"""The interface of a backend, which makes kernels of sub-graphs."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

from collage_dsl.graph import Graph, Option, Toolchain


class Placement(Enum):
    """How the function of a kernel is marked in a Relax module, which decides who lowers it."""

    PRIMITIVE = "Primitive"
    """TVM makes one PrimFunc of the function, and the backend schedules that PrimFunc."""

    CODEGEN = "Codegen"
    """The backend makes a runtime module of the whole function."""


class Backend(ABC):
    """
    Something that can run sub-graphs.

    Backends are values: frozen, slotted dataclasses that travel to worker processes.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that `compiler "…"` in a spec uses."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The libraries and versions that make the code. Costs of others are not reused."""

    @property
    def placement(self) -> Placement:
        """How the functions of its kernels are marked in any module."""
        return Placement.PRIMITIVE

    @property
    def binds_constants(self) -> bool:
        """Whether the constants of a sub-graph are inside its kernel, and are not operands."""
        return self.placement is Placement.CODEGEN

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of TVM targets, such as `llvm`, for which it makes kernels."""
        return ("llvm",)

    def prepare(self) -> None:
        """Raise OSError if this machine lacks something that every kernel needs (a compiler)."""
        return

    @abstractmethod
    def supports(self, graph: Graph) -> str | None:
        """
        Why `graph`, a sub-graph by itself, cannot become a kernel; None if it can.

        Compiles nothing. Constants need not have values.
        """

    @property
    def variants(self) -> tuple[str, ...]:
        """
        The names of the algorithms that it has for one operator. Each is measured, and the fastest
        is used. Empty where there is no choice.
        """
        return ()

    def unsuitable(self, variant: str, graph: Graph, weights: Collection[int]) -> str | None:
        """
        Why `variant` cannot compute `graph`, a sub-graph by itself; None if it can. `weights` are
        the nodes of `graph` that are constants of the model.
        """
        return None

    def unpromising(self, variant: str, graph: Graph, toolchain: Toolchain) -> str | None:
        """
        Why `variant` is not worth measuring for `graph`, since another is known to be faster on the
        processor of `toolchain`; None if it is. A variant that a target names is measured all the
        same.
        """
        return None

    def schedule_variant(self, function: Any, target: Any, variant: str) -> Any:
        """
        The `backends.schedule.variants.Scheduled` function that a variant makes of a primitive
        kernel, as `schedule` does. Raises `VariantError` if it cannot.
        """
        raise NotImplementedError(f"the backend {self.name} has no variants")

    def schedule(self, function: Any, target: Any) -> Any:
        """
        The `tvm.tirx.PrimFunc` of a primitive kernel, scheduled for `target`.

        Where a backend has no schedules of its own, those of this package are used. They are for
        `llvm`; a function for another kind of target stays as it is.
        """
        if str(target.kind.name) != "llvm":
            return function
        from collage_dsl.backends.schedule import schedule  # needs TVM

        return schedule(function, target=target)


class LibraryBackend(Backend):
    """A backend whose kernels are runtime modules that call a library."""

    __slots__ = ()

    @property
    def placement(self) -> Placement:
        return Placement.CODEGEN

    @abstractmethod
    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        """
        The `tvm.runtime.Module` whose function `symbol` runs `graph`.

        The function takes the inputs and then the outputs of `graph` as tensors, which may start
        at any multiple of the size of their elements. It may be called from several threads at
        once. Constants must have values. `options` are those of the target; unknown ones are
        ignored.
        """
