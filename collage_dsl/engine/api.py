"""The functions of the package that need TVM, in the form that users call them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import find_backend
from collage_dsl.engine.compile import Compiled, compile_model
from collage_dsl.language import load
from collage_dsl.realization.module import realize as realize_kernels
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Plan


def realize(plan: Plan, *, backends: Sequence[Backend] = ()) -> Any:
    """
    The Relax `IRModule` of `plan`, before lowering: one function for each distinct kernel.

    `backends` are asked before those that are installed.
    """
    return realize_kernels(
        plan.graph,
        plan.candidates,
        lambda toolchain: find_backend(toolchain.compiler or "tvm", backends),
    ).module


def compile(  # noqa: A001 (collage.compile is the contract)
    model: Any,
    targets: Sequence[FusionSpec | str | Path],
    *,
    allow_extern: bool = False,
    **options: Any,
) -> Compiled:
    """
    Compile `model`, an ONNX file or `ModelProto`, for `targets`: specs, or files of specs.

        exe = collage.compile("model.onnx", targets=["specs/native.collage"])
        exe.run({"x": array})

    `allow_extern` lets predicates of the specs run host code; it raises `PredicateError` where
    one would and may not. Other options are those of `engine.compile.compile_model`.
    """
    specs: list[FusionSpec] = []
    for target in targets:
        specs.extend([target] if isinstance(target, FusionSpec) else load(target).values())
    name = str(model) if isinstance(model, str | Path) else "model"
    return compile_model(model, specs, allow_extern=allow_extern, **{"name": name, **options})
