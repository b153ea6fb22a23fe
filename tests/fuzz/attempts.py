"""
What is done with each random case: one command, in this process.

An attempt fails if it raises. What a command refuses is fine; what reaches the last handler, which
calls it a defect of ours, is raised.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np
import onnx

from collage_dsl import Compiled
from collage_dsl import compile as compile_model
from collage_dsl.cli.failure import explained
from collage_dsl.cli.main import app
from collage_dsl.cost import CostStore, Measurement, StoreError
from collage_dsl.engine.steps import UncoveredError
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.reference import REFUSALS
from collage_dsl.realization.onnx_reference import evaluated
from collage_dsl.realization.runners import runner
from collage_dsl.realization.shaken import shaken
from collage_dsl.realization.signature import ExecutableError
from collage_dsl.realization.verification import VerificationError
from collage_dsl.resources import shipped_spec
from tests.fuzz import agreement, nodes, values
from tests.fuzz.aside import aside
from tests.fuzz.editor import answers, conversation
from tests.fuzz.folders import NATIVE, build, damage, write_inputs
from tests.fuzz.models import model
from tests.fuzz.specs import spec
from tests.fuzz.tables import in_place_of, table, write_store
from tests.models import small_convolution

Array = np.ndarray[Any, Any]

LIBRARY = shipped_spec("onnxruntime")

Attempt = Callable[[int, Path], None]
"""Makes the case of a seed in a folder, and runs a command on it."""

TABLE = '{native: {ops: {"*": 1.0e-6}}, onnxruntime: {ops: {"*": 2.0e-6}}}\n'


def collage(*arguments: object) -> str:
    """Run `collage` here. Returns why it refused; empty if it did not. Raises what is a defect."""
    try:
        app([str(each) for each in arguments], standalone_mode=False)
    except click.ClickException as error:
        return error.format_message()
    except Exception as error:
        failure = explained(error)
        if failure.message.startswith("internal error"):
            raise
        return failure.message
    return ""


def import_model(seed: int, folder: Path) -> None:
    path = folder / "model.onnx"
    path.write_bytes(model(seed))
    table = folder / "costs.yaml"
    table.write_text(TABLE)
    collage("plan", path, "--target", "native", "--target", "onnxruntime", "--costs", table)


def build_model(seed: int, folder: Path) -> None:
    """Build the kernels of a model, run them, and compare the outputs with the reference."""
    path = folder / "model.onnx"
    path.write_bytes(model(seed))
    try:
        compile_model(path, [NATIVE], cost=lambda _: 1e-6, race_seconds=0.01)
    except Exception as error:
        if explained(error).message.startswith("internal error"):
            raise


def read_tables(seed: int, folder: Path) -> None:
    chosen = Random(seed)
    path = folder / "costs.yaml"
    if chosen.random() < 0.1:
        in_place_of(path, chosen)
    else:
        path.write_bytes(table(seed))
    plan = ("plan", small_model(folder), "--target", "native")
    collage(*plan, "--costs", path)
    store = folder / "costs.sqlite"
    write_store(store, seed)
    use_store(store)


def small_model(folder: Path) -> Path:
    path = folder.parent / "small.onnx"
    if not path.exists():
        path.write_bytes(small_convolution().SerializeToString())
    return path


def use_store(path: Path) -> None:
    try:
        with CostStore(path) as store:
            store.find("k", "c")
            store.put(Measurement("k", "d", "label", 1e-6))
            len(store)
    except StoreError:
        return


def run_folder(seed: int, folder: Path) -> None:
    chosen = Random(seed)
    built, other = build(folder.parent / "built", 8), build(folder.parent / "other", 4)
    saved = shutil.copytree(built, folder / "saved")
    inputs = folder / "in.npz"
    if chosen.random() < 0.3:
        write_inputs(inputs, chosen)
    elif chosen.random() < 0.1:
        in_place_of(inputs, chosen)
    if chosen.random() < 0.7:
        damage(saved, other, chosen)
    given = ("--inputs", inputs) if os.path.lexists(inputs) else ()
    collage("run", saved, *given)


REQUESTS = 20
"""The requests of one conversation with the language server."""

INTERNAL = -32603
"""The code of JSON-RPC for a defect of the server."""


def talk(seed: int, folder: Path) -> None:
    said = conversation(seed, folder, REQUESTS)
    command = [sys.executable, "-m", "collage_dsl.cli.main", "lsp", "--stdio"]
    done = subprocess.run(command, input=said, capture_output=True, timeout=60, check=False)
    assert b"internal error" not in done.stderr, done.stderr.decode()
    errors = [each["error"] for each in answers(done.stdout) if "error" in each]
    assert not [error for error in errors if error["code"] == INTERNAL], errors


def check_spec(seed: int, folder: Path) -> None:
    path = folder / "a.collage"
    chosen = Random(seed)
    if chosen.random() < 0.02:
        in_place_of(path, chosen)
    else:
        path.write_bytes(spec(chosen))
    collage("check", path)
    collage("fmt", "--check", path)
    collage("convert", path, "--to", chosen.choice(("json", "yaml")))


def compare_values(seed: int, folder: Path) -> None:
    """Run a valid model by each of two targets alone, and compare it on eight kinds of inputs."""
    made = values.made(seed)
    (folder / "model.onnx").write_bytes(made.model.SerializeToString())
    try:
        right = Right(made.model)
    except FrontendError:
        return
    differs, short = values.is_different(made.model), values.is_short(made.model)
    tiny = values.is_tiny(made.model)
    for target in (NATIVE, LIBRARY):
        try:
            compiled = compile_model(made.model, [target], cost=lambda _: 1e-6, race_seconds=0.01)
        except (FrontendError, UncoveredError):
            continue
        except VerificationError as error:
            found = error.verification
            if found is None or tiny or (short and found.worst.draw == "large"):
                continue  # No output is a finite number, nothing is promised, float16 overflows.
            raise
        for kind, inputs in values.draws(made, seed):
            found = _difference(compiled, inputs, right(inputs), right.unit)
            if found and not (differs and right.meets_no_number(inputs)) and not tiny:
                raise AssertionError(f"{target}, inputs {kind}: {found}")


def _difference(
    compiled: Compiled,
    inputs: Mapping[str, Array],
    right: Sequence[Mapping[str, Array]],
    unit: float,
) -> str:
    try:
        outputs = compiled.run(inputs)
    except ExecutableError as error:
        return f"onnxruntime does not say: {error}" if right else ""
    if not right:
        return "onnxruntime refuses them"
    found = {
        name: values.differences(array, [each[name] for each in right], unit)
        for name, array in outputs.items()
    }
    return next((f"`{name}`: {what}" for name, what in found.items() if what), "")


class Right:
    """
    The outputs of a model by onnxruntime without optimisations; by the same on two inputs that
    differ by rounding; and in float64. None of them where onnxruntime refuses the inputs.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.run = runner(model)
        self.unit = values.unit_of(model)
        self.all = runner(values.with_all_values(model))

    def __call__(self, inputs: Mapping[str, Array]) -> list[Mapping[str, Array]]:
        try:
            found = [self.run(inputs)]
        except REFUSALS:
            return []
        generator = np.random.default_rng(0)
        for _ in range(2):
            changed = {n: shaken(each, generator, self.unit) for n, each in inputs.items()}
            found.append(self.run(changed))
        for other in evaluated(self.model, inputs):
            same = {n: np.asarray(each, found[0][n].dtype) for n, each in other.items()}
            if all(each.shape == found[0][n].shape for n, each in same.items()):
                found.append(same)
        return found

    def meets_no_number(self, inputs: Mapping[str, Array]) -> bool:
        """Whether any value on the way is not a finite number."""
        every = [*inputs.values(), *self.all(inputs).values()]
        return not all(np.isfinite(each).all() for each in every)


def compare_graphs(seed: int, folder: Path) -> None:
    """
    Run a random model of any operators by a random plan, and compare it with onnxruntime. Seeds for
    which onnxruntime ends its process, or takes no model, count as fine.
    """
    nodes.cases()  # Read here, and not again in each copy of the process.
    kind, case = aside(lambda: agreement.case_of(seed), 8)
    if kind != "made":
        return
    (folder / "model.onnx").write_bytes(case.made.model.SerializeToString())
    found = agreement.disagreement(case, Random(seed))
    assert not found, f"{found}\n{onnx.printer.to_text(case.made.model)}"


ATTEMPTS: Mapping[str, Attempt] = {
    "models": import_model,
    "builds": build_model,
    "tables": read_tables,
    "folders": run_folder,
    "editor": talk,
    "specs": check_spec,
    "values": compare_values,
    "graphs": compare_graphs,
}
