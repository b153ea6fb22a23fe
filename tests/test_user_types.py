"""A type checker sees the types of the package that a user installs, without its libraries."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

import collage_dsl
from tests.built import built

RIGHT = """
    from collections.abc import Mapping

    import collage_dsl as collage
    from collage_dsl import CandidateKernel, CollagePartition, FusionSpec, Infeasible, Plan


    def cost(candidate: CandidateKernel) -> float | Infeasible:
        if candidate.target == "slow":
            return Infeasible("it is too slow")
        return 1e-6 * len(candidate.nodes)


    def kernels(plan: Plan) -> list[tuple[str, float]]:
        return [(kernel.label, kernel.cost) for kernel in plan.kernels]


    specs: Mapping[str, FusionSpec] = collage.load("x86.collage")
    graph = collage.parse_graph("x: f32[1]; y = nn.relu(x); return y;")
    found = collage.propose(graph, *specs.values())
    plan = collage.choose(graph, found, cost=cost)
    print(kernels(plan), plan.cost + 1.0, collage.realize(plan))

    spec = collage.gather("llvm")
    text: str = collage.to_text(spec)
    carried: FusionSpec | None = collage.extract(collage.attach({"kind": "llvm"}, spec))
    exe = collage.compile("model.onnx", targets=[spec, "x86.collage"])
    exe.save("out")
    print(exe.plan.cost, exe.run({}), CollagePartition([spec]))
"""

WRONG = """
    import collage_dsl as collage

    specs = collage.lod("x86.collage")  # attr-defined
    specs = collage.load(5)  # arg-type
    graph = collage.parse_graph("x: f32[1]; return x;")
    plan = collage.choose(graph, [], cost=len)  # arg-type
    plan.kernles  # attr-defined
    cost: str = plan.cost  # assignment
    collage.gather("llvm").target.nam  # attr-defined
    collage.compile("model.onnx", targets=[]).save(5)  # arg-type
"""


@dataclass(frozen=True, slots=True)
class TypeChecker:
    """mypy, run on what a user writes where nothing but the wheel is installed."""

    folder: Path
    python: Path

    def __call__(self, text: str) -> tuple[int, str]:
        """The exit code of mypy, and what it says."""
        file = self.folder / "user.py"
        file.write_text(dedent(text).lstrip(), "utf-8")
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", file.name]
        options = [f"--python-executable={self.python}", f"--cache-dir={self.folder / 'cache'}"]
        done = subprocess.run(
            [*command, *options], cwd=self.folder, capture_output=True, text=True, timeout=120
        )
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> TypeChecker:
    folder = tmp_path_factory.mktemp("user")
    wheel = built("wheel", tmp_path_factory.mktemp("dist"))
    environment = folder / "environment"
    run = [sys.executable, "-m"]
    subprocess.run([*run, "venv", "--without-pip", str(environment)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    install = ["pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(packages)]
    subprocess.run([*run, *install, str(wheel)], check=True)
    return TypeChecker(folder, environment / "bin" / "python")


def test_a_right_use_of_the_public_names_passes(types: TypeChecker) -> None:
    code, said = types(RIGHT)

    assert code == 0, said


def test_each_wrong_use_is_reported(types: TypeChecker) -> None:
    code, said = types(WRONG)

    lines = enumerate(dedent(WRONG).lstrip().splitlines(), 1)
    wrong = [(number, line.partition("  # ")[2]) for number, line in lines if "  # " in line]
    found = re.findall(r"^user\.py:(\d+): error: .*\[([\w-]+)\]$", said, re.MULTILINE)
    assert code == 1
    assert [(int(number), kind) for number, kind in found] == wrong


def test_every_public_name_has_a_type(types: TypeChecker) -> None:
    names = collage_dsl.__all__
    shown = "\n".join(f"reveal_type(collage_dsl.{name})" for name in names)

    code, said = types(f"import collage_dsl\n\n{shown}\n")

    revealed = re.findall(r'Revealed type is "(.*)"$', said, re.MULTILINE)
    assert code == 0, said
    assert len(revealed) == len(names)
    assert "Any" not in revealed
