"""The functions of the package that need TVM, in the form that users call them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import known
from collage_dsl.backends.tvm import kernel_target
from collage_dsl.engine.compile import Compiled, compile_model
from collage_dsl.engine.specs import specs_of
from collage_dsl.realization.partition import realize as realize_kernels
from collage_dsl.search import Plan


def realize(plan: Plan, *, backends: Sequence[Backend] = ()) -> Any:
    """
    The Relax `IRModule` of `plan`, before lowering: one function for each distinct kernel, and a
    function that calls them. `collage.lowering()` lowers it, in any process.

    `backends` are asked before those that are installed. Raises ValueError where a constant of
    the plan's graph has no value.
    """
    default = kernel_target(plan.home) if plan.home else None
    return realize_kernels(plan.graph, plan.candidates, known(backends), default)


def compile(  # noqa: A001 (collage.compile is the contract)
    model: Any,
    targets: Sequence[Any],
    *,
    allow_extern: bool = False,
    backends: Sequence[Backend] = (),
    **options: Any,
) -> Compiled:
    """
    Compile `model`, an ONNX file or `ModelProto`, for `targets`: specs; `"FILE"`,
    `"FILE#TARGET"` or the name of a shipped spec, as `-t` of a command takes them; or TVM
    targets, of which `gather` finds the specs.

        exe = collage.compile("model.onnx", targets=["native", "onnxruntime"])
        exe.run({"x": array})

    `allow_extern` lets predicates of the specs run host code; it raises `PredicateError` where
    one would and may not. `backends` come before those that are installed, also for `gather` and
    `op_predicate`. Other options are those of `engine.compile.compile_model`.
    """
    specs = specs_of(targets, backends)
    name = str(model) if isinstance(model, str | Path) else "model"
    given = {"name": name, **options}
    return compile_model(model, specs, allow_extern=allow_extern, backends=backends, **given)
