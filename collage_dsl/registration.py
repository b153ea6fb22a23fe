"""Register the pipeline `collage` for `tvm.compile(module, target, relax_pipeline="collage")`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, cast

NAME = "collage"

_PIPELINES = "tvm.relax.pipeline"
"""The TVM module that has the pipelines by name."""


def register() -> None:
    """Register the pipeline: now if TVM has been imported, otherwise when it is imported."""
    pipelines = sys.modules.get(_PIPELINES)
    if pipelines is not None:
        _register_with(pipelines)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _register_with(pipelines: ModuleType) -> None:
    pipelines.PIPELINE_MAP.setdefault(NAME, _made)


def _made(**options: Any) -> Any:
    """The pipeline for TVM's current target. Modules that need TVM are imported only here."""
    return import_module("collage_dsl.engine.pipeline").pipeline(**options)


class _Finder:
    """Finds the TVM module with the pipelines, and registers ours after it is loaded."""

    # The abstract classes of importlib.abc would load modules that checking a spec does not need.

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _PIPELINES:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = cast(Any, _Loader(spec.loader))
        return spec


class _Loader:
    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _register_with(module)
