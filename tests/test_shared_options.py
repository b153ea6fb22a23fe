"""Each command says the same, with the same exit code, of a wrong value of an option."""

from pathlib import Path

import onnx
import pytest
from onnx.parser import parse_model

import collage_dsl as collage
from tests.commands import said

pytestmark = pytest.mark.engine

RUNS = "compile model.onnx -t native -o new", "freeze model.onnx -t native -o new.lock"
RACES = *RUNS, "bench model.onnx -t native"
REPLAY = "replay model.lock model.onnx -t native"
PLANS = "plan model.onnx -t native", "tune model.onnx -t native"
LOOKS = "show model.onnx", "candidates model.onnx -t native", "coverage model.onnx -t native"
SHAPED = *LOOKS, *PLANS, *RACES, REPLAY
ANYWHERE = *PLANS, *RACES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, what was compiled from it, and its lock."""
    folder = tmp_path_factory.mktemp("given")
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        net (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }"""
    )
    onnx.save(model, folder / "model.onnx")
    specs = list(collage.load(text=RELU).values())
    compiled = collage.compile(model, specs, cost=lambda _: 1e-6, race_seconds=0.01)
    compiled.save(folder / "out")
    compiled.freeze(folder / "model.lock")
    return folder


RELU = """collage 1;
pattern relu(x) { y = nn.relu(x); yield y; }
target tvm on llvm { rules dfpattern(relu); }
"""


@pytest.mark.parametrize(
    ("option", "words", "commands"),
    [
        (["--sizes", "m=2"], "no input has a dimension `m`", (*RACES, REPLAY, "run out")),
        (["--sizes", "n"], "--sizes n: write it as NAME=", (*RACES, REPLAY, "run out")),
        (["--sizes", f"n={10**13}"], "more than 12 digits", (*RACES, REPLAY, "run out")),
        (["--sizes", f"n={10**12 - 1}"], "larger than 1 TiB", (*RACES, REPLAY)),
        (["--shape", "z=1,4"], "the model has no input `z`; its inputs are `x`", SHAPED),
        (["--shape", "x=4"], "`x` has 2 dimensions, the shape given for it 1", SHAPED),
        (["--shape", f"x={10**12 - 1},4"], "larger than 1 TiB", SHAPED),
        (["--at", "z"], "the model has no node `z`", (*LOOKS[:2], PLANS[1])),
        (
            ["--seed", "-1", "--refine", "evolutionary"],
            "'--seed': -1 is not in the range x>=0",
            RACES,
        ),
        (["--seed", "-1"], "'--seed': -1 is not in the range x>=0", ("run out",)),
        (["--key", "k"], "Error: --key needs --tracker", ANYWHERE),
        (["--tracker", "h:1"], "Error: --tracker needs --key", ANYWHERE),
        (["--tracker", "", "--key", "k"], "'--tracker': it is empty", (*ANYWHERE, "serve")),
        (["--key", "", "--tracker", "h:1"], "'--key': it is empty", (*ANYWHERE, "serve")),
        (["--scheduler", ""], "'--scheduler': it is empty", ANYWHERE),
    ],
)
def test_a_wrong_value_is_said_alike(
    option: list[str],
    words: str,
    commands: tuple[str, ...],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)

    for command in commands:
        done = said(*command.split(), *option)

        assert (done.code, done.out) == (2, ""), command
        assert words in done.err, command


@pytest.mark.parametrize("option", [["--sizes", "n=2"], ["--seed", "3"]])
def test_options_of_random_inputs_are_refused_beside_given_ones(
    option: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    done = said("run", "out", "--inputs", "x.npz", *option)

    assert done.code == 2
    assert done.err.endswith(f"Error: {option[0]} and --inputs cannot be used together\n")


def test_random_inputs_have_one_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    done = said("run", "out", "--sizes", "n=1,2")

    assert done.code == 2
    assert "--sizes n=1,2: random inputs have one size " in done.err


@pytest.mark.parametrize(
    "option",
    [
        *(["--strategy", "beam"], ["--costs", "measured"], ["--scheduler", "h:1"]),
        *(["--tuning-budget", "5"], ["--plans", "2"], ["--refine", "evolutionary"]),
        ["--tracker", "h:1", "--key", "k"],
    ],
    ids=lambda option: option[0],
)
def test_options_that_choose_kernels_are_refused_beside_a_lock(
    option: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    frozen = ("compile", "model.onnx", "-t", "native", "--frozen", "model.lock", "-o", "b")

    done = said(*frozen, *option)

    assert done.code == 2
    assert f"--frozen and {option[0]} cannot be used together" in done.err
