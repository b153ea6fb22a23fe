"""
Declarative operator fusion for TVM. `.collage` files say which operators can be fused and which
library can run each kernel; measured cost chooses.

Every name is loaded on first use, and TVM only by names that need it. Importing this package
registers the pipeline `collage`: `tvm.compile(module, target, relax_pipeline="collage")`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from collage_dsl.registration import register

if TYPE_CHECKING:
    from collage_dsl.backends.registry import BackendError
    from collage_dsl.cost import Copies, CostError, CostTable, Infeasible
    from collage_dsl.diagnostics import Diagnostic, RuleError
    from collage_dsl.engine.api import compile, realize  # noqa: A004 (collage.compile is the contract)
    from collage_dsl.engine.compile import Compiled
    from collage_dsl.engine.partition import CollagePartition
    from collage_dsl.engine.pipeline import pipeline
    from collage_dsl.engine.spec_files import load, patterns
    from collage_dsl.engine.steps import UncoveredError, choose, propose
    from collage_dsl.engine.stopped import StoppedWarning
    from collage_dsl.engine.why import near, why
    from collage_dsl.frontend.errors import FrontendError
    from collage_dsl.frontend.from_relax import from_relax
    from collage_dsl.frontend.from_torch import from_torch
    from collage_dsl.frontend.onnx import from_onnx
    from collage_dsl.graph import CandidateKernel, Graph
    from collage_dsl.language import UnreadableError, format_graph, parse_graph, to_text
    from collage_dsl.realization.errors import BuildError
    from collage_dsl.realization.lower import lowering
    from collage_dsl.realization.saving import load_executable
    from collage_dsl.realization.signature import ExecutableError, InputError
    from collage_dsl.realization.verification import VerificationError
    from collage_dsl.rules import FusionSpec
    from collage_dsl.rules.predicate import PredicateError
    from collage_dsl.search import NoPlanError, Plan, StrategyError
    from collage_dsl.targets.attach import TargetError, attach, extract, extract_all
    from collage_dsl.targets.gather import gather, gather_all
    from collage_dsl.witness.example import Example, NoExampleError, example

_HOME = {
    "BackendError": "backends.registry",
    "BuildError": "realization.errors",
    "CandidateKernel": "graph",
    "CollagePartition": "engine.partition",
    "Compiled": "engine.compile",
    "Copies": "cost",
    "CostError": "cost",
    "CostTable": "cost",
    "Diagnostic": "diagnostics",
    "Example": "witness.example",
    "ExecutableError": "realization.signature",
    "FrontendError": "frontend.errors",
    "FusionSpec": "rules",
    "Graph": "graph",
    "Infeasible": "cost",
    "InputError": "realization.signature",
    "NoExampleError": "witness.example",
    "NoPlanError": "search",
    "Plan": "search",
    "PredicateError": "rules.predicate",
    "RuleError": "diagnostics",
    "StoppedWarning": "engine.stopped",
    "StrategyError": "search",
    "TargetError": "targets.attach",
    "UncoveredError": "engine.steps",
    "UnreadableError": "language",
    "VerificationError": "realization.verification",
    "attach": "targets.attach",
    "choose": "engine.steps",
    "compile": "engine.api",
    "example": "witness.example",
    "extract": "targets.attach",
    "extract_all": "targets.attach",
    "format_graph": "language",
    "from_onnx": "frontend.onnx",
    "from_relax": "frontend.from_relax",
    "from_torch": "frontend.from_torch",
    "gather": "targets.gather",
    "gather_all": "targets.gather",
    "load": "engine.spec_files",
    "load_executable": "realization.saving",
    "lowering": "realization.lower",
    "near": "engine.why",
    "parse_graph": "language",
    "patterns": "engine.spec_files",
    "pipeline": "engine.pipeline",
    "propose": "engine.steps",
    "realize": "engine.api",
    "to_text": "language",
    "why": "engine.why",
}
"""For each public name, the module of this package that defines it."""

__all__ = [
    "BackendError",
    "BuildError",
    "CandidateKernel",
    "CollagePartition",
    "Compiled",
    "Copies",
    "CostError",
    "CostTable",
    "Diagnostic",
    "Example",
    "ExecutableError",
    "FrontendError",
    "FusionSpec",
    "Graph",
    "Infeasible",
    "InputError",
    "NoExampleError",
    "NoPlanError",
    "Plan",
    "PredicateError",
    "RuleError",
    "StoppedWarning",
    "StrategyError",
    "TargetError",
    "UncoveredError",
    "UnreadableError",
    "VerificationError",
    "attach",
    "choose",
    "compile",
    "example",
    "extract",
    "extract_all",
    "format_graph",
    "from_onnx",
    "from_relax",
    "from_torch",
    "gather",
    "gather_all",
    "load",
    "load_executable",
    "lowering",
    "near",
    "parse_graph",
    "patterns",
    "pipeline",
    "propose",
    "realize",
    "to_text",
    "why",
]


register()

if not TYPE_CHECKING:  # else a type checker would accept every name in this package

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            home = import_module(f"{__name__}.{_HOME[name]}")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{__name__}.{name} needs {error.name}, which is not installed; "
                "install it with: pip install 'collage_dsl[tvm]'",
                name=error.name,
            ) from error
        return getattr(home, name)


def __dir__() -> list[str]:
    """The public names; where TVM is not installed, those that need none, so that `help` works."""
    return sorted(__all__ if find_spec("tvm") else filter(_loads, __all__))


def _loads(name: str) -> bool:
    try:
        import_module(f"{__name__}.{_HOME[name]}")
    except ModuleNotFoundError:
        return False
    return True
