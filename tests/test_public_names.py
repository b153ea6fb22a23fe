"""The names that users outside the repository rely on."""

import subprocess
import sys

import pytest

import collage_dsl
from tests.needs_engine import ENGINE

CONTRACT = {
    *{"CandidateKernel", "CostTable", "FusionSpec", "Graph", "Infeasible", "Plan", "RuleError"},
    *{"choose", "compile", "from_onnx", "from_relax", "from_torch", "load"},
    *{"parse_graph", "propose", "load_executable", "near", "patterns", "realize", "to_text", "why"},
    "example",
    *{"BackendError", "BuildError", "CostError", "ExecutableError", "FrontendError"},
    "PredicateError",
    *{"StrategyError", "TargetError", "UnreadableError", "VerificationError"},
}


def test_every_name_of_the_contract_is_public() -> None:
    assert set(collage_dsl.__all__) >= CONTRACT


@pytest.mark.engine
def test_every_public_name_can_be_used() -> None:
    for name in collage_dsl.__all__:
        assert getattr(collage_dsl, name).__name__ == name


@pytest.mark.engine
def test_nothing_else_is_public() -> None:
    assert dir(collage_dsl) == sorted(collage_dsl.__all__)


def test_without_tvm_help_has_the_other_names_and_the_rest_say_what_to_install() -> None:
    program = (
        f"import sys; sys.modules |= dict.fromkeys({sorted(ENGINE)}); import collage_dsl, pydoc;"
        "pydoc.render_doc(collage_dsl); assert 'load' in dir(collage_dsl); collage_dsl.compile"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stderr.splitlines()[-1].endswith(
        "which is not installed; install it with: pip install 'collage_dsl[tvm]'"
    )


def test_the_package_and_the_language_load_without_tvm() -> None:
    program = (
        "import sys, collage_dsl; collage_dsl.load; collage_dsl.parse_graph; collage_dsl.choose;"
        "collage_dsl.why; collage_dsl.near;"
        "heavy = {'tvm', 'tvm_ffi', 'onnx', 'onnxruntime', 'numpy'} & set(sys.modules);"
        "sys.exit(f'{heavy} was imported' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
