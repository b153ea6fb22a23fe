"""
A result that is kept: the kernels of a compiled model, and everything that they were chosen for.

A model that is compiled with its lock has the same kernels. Nothing is searched for, measured or
raced, and on the same machine the built library is the same, byte for byte.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import Field, ValidationError

from collage_dsl.backends.registry import BackendOf
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.tvm_target import machine_target
from collage_dsl.cost.strict import Strict
from collage_dsl.engine.costs import Priced
from collage_dsl.engine.locked import (
    LockedCost,
    LockedKernel,
    LockedPlan,
    LockError,
    changed,
)
from collage_dsl.engine.sizes import Part
from collage_dsl.engine.steps import is_of_all_targets
from collage_dsl.graph import CandidateKernel, Form, Graph, Node
from collage_dsl.language import to_text
from collage_dsl.reading import cause_of, first_fault, text_of
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.kernel import makers
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Plan

_MOST_BYTES = 1 << 26
"""The longest lock that is read, for some hundred thousand kernels."""

_WRITES = "`collage freeze` writes locks"


@contextmanager
def building_from_lock() -> Iterator[None]:
    """
    Raise `LockError` if a kernel cannot be built. Kernels are frozen after they were built, with
    the same versions and for the same processor, so the lock was changed.
    """
    try:
        yield
    except BuildError as error:
        said = f"a kernel of the lock cannot be built: {error}"
        raise LockError(f"{said}; freeze the model anew") from error


class Lock(Strict):
    """
    The plans for a model. `model` is a hash of its graph and weights. `targets` are the specs as
    text, `versions` and `processors` those of what made the kernels of each target.
    """

    version: Literal[1] = 1
    model: str
    targets: dict[str, str]
    versions: dict[str, str]
    processors: dict[str, str]
    plans: list[LockedPlan] = Field(min_length=1)

    @classmethod
    def of(
        cls,
        parts: Sequence[Part],
        plans: Sequence[tuple[str, Plan]],
        specs: Sequence[FusionSpec],
        backend_of: BackendOf,
        costs: Sequence[Mapping[CandidateKernel, Priced]],
    ) -> Self:
        """
        The lock of the plans that were chosen for the parts of a model, with their names, and with
        the costs that were asked for.
        """
        made_for = _Made.of(parts, specs, backend_of, [plan for _, plan in plans])
        return cls(
            model=made_for.model,
            targets=made_for.targets,
            versions=made_for.versions,
            processors=made_for.processors,
            plans=[
                LockedPlan(
                    sizes=dict(part.sizes),
                    chosen=name,
                    is_copying=plan.home is not None,
                    kernels=[LockedKernel.of(kernel) for kernel in plan.kernels],
                    costs=[LockedCost.of(kernel, each) for kernel, each in priced.items()],
                )
                for part, (name, plan), priced in zip(parts, plans, costs, strict=True)
            ],
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The lock in a file. Raises `LockError`."""
        try:
            return cls.model_validate_json(text_of(path, _MOST_BYTES))
        except ValidationError as error:
            raise LockError(f"{path} is no lock: {first_fault(error)}; {_WRITES}") from error
        except (OSError, ValueError) as error:
            said = f"cannot read the lock {path}: {cause_of(error)}"
            raise LockError(f"{said}; {_WRITES}") from error

    def text(self) -> str:
        """The lock as JSON, with a line for each kernel and cost."""
        return _lines(self.model_dump(exclude_defaults=True) | {"version": self.version}) + "\n"

    def plans_for(
        self, parts: Sequence[Part], specs: Sequence[FusionSpec], backend_of: BackendOf
    ) -> list[tuple[str, Plan]]:
        """
        The plan for each part of a model, and its name. Raises `LockError` if the lock is not for
        this model, these targets, sizes, versions or processors.
        """
        targets = {spec.name: spec.target for spec in specs}
        plans = [
            (each.chosen, each.plan(part.graph, targets, specs[0].target))
            for each, part in zip(self.checked_plans(parts, specs), parts, strict=True)
        ]
        made_for = _Made.of(parts, specs, backend_of, [plan for _, plan in plans])
        _check_made("version", "install that version", self.versions, made_for.versions)
        _check_made("processor", "use such a machine", self.processors, made_for.processors)
        return plans

    def checked_plans(self, parts: Sequence[Part], specs: Sequence[FusionSpec]) -> list[LockedPlan]:
        """
        The plan for each of the `parts`, which may be in another order than when the model was
        frozen. Raises `LockError` if the lock is not for this model, these targets and sizes.
        """
        wanted = [frozenset(part.sizes.items()) for part in parts]
        by_sizes = {frozenset(each.sizes.items()): each for each in self.plans}
        if by_sizes.keys() != set(wanted) or len(self.plans) != len(parts):
            locked, given = [each.sizes for each in self.plans], [part.sizes for part in parts]
            raise LockError(
                f"the lock is for the sizes {_sizes(locked)}, not {_sizes(given)}: give the same "
                "sizes and shapes, or freeze the model anew"
            )
        self._check_targets(specs)
        for each in self.plans:
            if not is_of_all_targets(each.chosen) and each.chosen not in self.targets:
                raise changed(f"the lock has a plan `{each.chosen}` of no target")
        if self.model != model_hash(parts[0].graph):
            raise LockError(
                "the model, or a shape that is given for an input, is not as it was when the model "
                "was frozen: give the same model and shapes, or freeze the model anew"
            )
        return [by_sizes[sizes] for sizes in wanted]

    def _check_targets(self, specs: Sequence[FusionSpec]) -> None:
        given = {spec.name: to_text(spec) for spec in specs}
        if list(given) != list(self.targets):
            raise LockError(
                f"the lock is for the targets {', '.join(self.targets)}, in this order, not "
                f"{', '.join(given)}: give the same targets in the same order, or freeze the model "
                "anew"
            )
        for name, text in given.items():
            if text != self.targets[name]:
                said = f"the target `{name}` is not as it was when the model was frozen"
                undo = "go back to what it was, or freeze the model anew"
                raise LockError(f"{said}{_difference(self.targets[name], text)}: {undo}")


def _check_made(what: str, undo: str, locked: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise `LockError` unless what made the kernels is `found` to be as it was."""
    for name in [each for each in locked if each in found]:
        was, is_ = locked[name], found[name]
        if was != is_:
            said = f"the {what} of {name} was {was} and is {is_}"
            raise LockError(f"{said}: {undo}, or freeze the model anew")
    if locked.keys() != found.keys():
        said = f"the lock has the {what}s of {', '.join(locked)}"
        raise changed(f"{said}, and its kernels are made by {', '.join(found)}")


def _difference(was: str, is_: str) -> str:
    """The first line in which two texts differ, to be read after what differs."""
    lines = zip_longest(was.splitlines(), is_.splitlines(), fillvalue="")
    before, now = next(((one, other) for one, other in lines if one != other), ("", ""))
    return f" (`{before.strip()}` then, `{now.strip()}` now)"


@dataclass(frozen=True, slots=True)
class _Made:
    """What plans were made for."""

    model: str
    targets: dict[str, str]
    versions: dict[str, str]
    processors: dict[str, str]

    @classmethod
    def of(
        cls,
        parts: Sequence[Part],
        specs: Sequence[FusionSpec],
        backend_of: BackendOf,
        plans: Sequence[Plan],
    ) -> Self:
        candidates = [each for plan in plans for each in plan.candidates]
        used = {each.toolchain.name: each.toolchain for each in candidates}
        backends = {each for candidate in candidates for each in makers(candidate, backend_of)}
        versions = {each.name: each.version for each in (*backends, Tvm())}
        return cls(
            model_hash(parts[0].graph),
            {spec.name: to_text(spec) for spec in specs},
            dict(sorted(versions.items())),
            {name: json.dumps(machine_target(used[name]), sort_keys=True) for name in sorted(used)},
        )


def _lines(value: object, depth: int = 0) -> str:
    """JSON, in which what has no list of objects inside is one line."""
    pad = " " * depth
    if isinstance(value, dict) and depth < _DEPTH:
        inner = (f"{pad} {json.dumps(k)}: {_lines(v, depth + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(inner) + f"\n{pad}}}"
    if isinstance(value, list) and depth < _DEPTH:
        return "[\n" + ",\n".join(f"{pad} {_lines(v, depth + 1)}" for v in value) + f"\n{pad}]"
    return json.dumps(value)


_DEPTH = 4
"""Where lock, plans, plan and kernels end, and a kernel begins."""


def model_hash(graph: Graph) -> str:
    """A hash of a graph and of the values of its constants."""
    digest = hashlib.sha256()
    for node in graph.nodes:
        for field in _fields(node):
            digest.update(field)
            digest.update(b"\0")
    digest.update(repr(graph.outputs).encode())
    return digest.hexdigest()


def _fields(node: Node) -> Iterator[bytes]:
    said = (node.name, node.form, node.op, node.type, node.inputs, sorted(node.attrs.items()))
    yield repr(said).encode("utf-8", "surrogatepass")
    if node.form is Form.CONSTANT and node.value is not None:
        yield np.asarray(node.value).tobytes()


def _sizes(sizes: Sequence[Mapping[str, int]]) -> str:
    return ", ".join(
        " ".join(f"{name}={size}" for name, size in each.items()) or "any" for each in sizes
    )
