"""The keys for costs in the store: the kernel, and everything else that its cost depends on."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace

import tvm

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NO_BACKEND, find_backend
from collage_dsl.backends.tvm_target import machine_target, num_cores
from collage_dsl.cost.measurement import CODE, TVM, WAY, Context
from collage_dsl.graph import CandidateKernel, Extract, Graph, Measuring, Toolchain, tensors
from collage_dsl.graph.sizes import Sizes, names_in
from collage_dsl.measuring.footprint import Far
from collage_dsl.measuring.machine import METHOD, Machine, this_machine
from collage_dsl.realization.kernel import kernel_identity


def kernel_key(
    candidate: CandidateKernel,
    backend: Backend,
    view: Extract,
    sizes: Sizes | None = None,
    values: Mapping[int, object] | None = None,
) -> str:
    """
    A hash of what a kernel computes: its graph, the composites that the backend gets, the `sizes`
    of its symbolic dimensions, and the shapes of the `values` that it takes where its graph does
    not tell them.
    """
    used = dimensions(view.graph)
    measured_at = sorted((name, size) for name, size in (sizes or {}).items() if name in used)
    identity = kernel_identity(candidate, backend, view)
    shapes = [_shape(values[index]) for index in view.arguments if values and index in values]
    return _hash([identity, *([measured_at] if used else []), *([shapes] if shapes else [])])


def _shape(value: object) -> object:
    """The shape of an array; of a list of them, the shapes."""
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return list(getattr(value, "shape", ()))


def dimensions(graph: Graph) -> frozenset[str]:
    """The names of the symbolic dimensions in the types of `graph`."""
    found: set[str] = set()
    for node in graph.nodes:
        for type_ in tensors(node.type):
            if not type_.is_static:
                found.update(*(names_in(dim) for dim in type_.shape or ()))
    return frozenset(found)


def context_of(
    toolchain: Toolchain,
    backend: Backend,
    *libraries: Backend,
    others: int | None = None,
    far: Far = (),
    machine: Machine | None = None,
) -> Context:
    """
    Everything that the cost of a kernel depends on, except the kernel itself. `libraries` are those
    that the kernel is linked to. `others` are the bytes that its model reads besides between two
    runs; None where all is in memory. What of it is `far` is used only once in that time. The time
    limit is not part of it: a cost that was measured within one limit holds for another. The kernel
    runs on `machine`, by default this one.
    """
    machine = machine or this_machine()
    measure = replace(toolchain.measure, timeout=None, runs=Measuring().runs)
    cores = num_cores(toolchain)
    options = dict(toolchain.options)
    if cores == 1:  # as where nothing is said
        options.pop("num_cores", None)
    made_for, name = machine_target(machine.aimed(toolchain)), machine.runs_on(toolchain)
    settings = [] if measure == Measuring() else _settings(measure)
    key = _hash(
        [
            toolchain.kind,
            toolchain.compiler,
            sorted(options.items()),
            toolchain.variants,
            made_for,
            repr(backend),
            backend.version,
            machine.tvm,
            name,
            machine.method,
            *([machine.processors] if machine.processors < cores else []),
            *settings,
            *([] if others is None else ["others", others, *far]),
            *([toolchain.record.text()] if toolchain.record else []),
            *((repr(each), each.version) for each in libraries),
        ]
    )
    return Context(
        key,
        name,
        toolchain.compiler or toolchain.kind,
        _text({**options, "variants": toolchain.variants or None, CODE: made_for}),
        _text(
            {TVM: machine.tvm, WAY: machine.method}
            | {each.name: each.version for each in (backend, *libraries)}
        ),
        _text({"runs": toolchain.measure.runs, **_unusual(measure), "others": others, "far": far}),
    )


def is_outdated(context: Context) -> bool:
    """Whether a context is of other versions than those that are installed, or unknown ones."""
    known = json.loads(context.versions or "{}")
    if known.pop(TVM, None) != tvm.__version__ or known.pop(WAY, None) != METHOD:
        return True
    return any(_installed(name) != version for name, version in known.items())


def _installed(name: str) -> str | None:
    try:
        return find_backend(name).version
    except NO_BACKEND:
        return None


def _settings(measure: Measuring) -> list[object]:
    """All settings of timing but `runs`; the margin, which is newer, only if it is unusual."""
    usual = Measuring().noise_margin
    margin = [] if measure.noise_margin == usual else [measure.noise_margin]
    return [measure.repeats, measure.percentile, measure.budget, measure.timeout, *margin]


def _unusual(measure: Measuring) -> dict[str, object]:
    """The settings of timing that are not the usual ones."""
    usual = asdict(Measuring())
    return {name: value for name, value in asdict(measure).items() if value != usual[name]}


def _text(fields: Mapping[str, object]) -> str:
    """Names and values of fields that say something, as JSON."""
    said = {name: value for name, value in fields.items() if value not in (None, "", {}, ())}
    return json.dumps(said, default=str)


def _hash(content: object) -> str:
    text = json.dumps(content, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
