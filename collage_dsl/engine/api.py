"""The public functions `compile` and `realize`, which need TVM."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collage_dsl.argument_types import with_checked_types
from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import known
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.engine.compile import Compiled, compile_model
from collage_dsl.engine.specs import specs_of
from collage_dsl.realization.partition import realize as realize_kernels
from collage_dsl.search import Plan


@with_checked_types()
def realize(plan: Plan, *, backends: Sequence[Backend] = ()) -> Any:
    """
    The Relax `IRModule` of `plan`, before lowering: one function for each distinct kernel, and a
    function that calls them. `collage.lowering()` lowers it, in any process.

    `backends` come before the installed ones. Raises ValueError if a constant of the plan's graph
    has no value.
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
    Compile `model`, an ONNX file, a `ModelProto` or what `torch.export.export` gives, for
    `targets`. A target is a spec; a string as for the option `-t` (`"FILE"`, `"FILE#TARGET"` or
    the name of a shipped spec); or a TVM target, whose specs `gather` finds.

        exe = collage.compile("model.onnx", targets=["native", "onnxruntime"])
        exe.run({"x": array})

    `allow_extern` lets predicates of the specs run host code; without it such a predicate raises
    `PredicateError`. `backends` come before the installed ones, also for `gather` and
    `op_predicate`. Other options are those of `engine.compile.compile_model`.

    Raises `RuleError` for a spec with errors, `FrontendError` for a model that cannot be read,
    `UncoveredError` for one with a call that no target can run, and `VerificationError` if the
    result is wrong.
    """
    specs = specs_of(targets, backends)
    name = str(model) if isinstance(model, str | Path) else "model"
    given = {"name": name, **options}
    return compile_model(model, specs, allow_extern=allow_extern, backends=backends, **given)
