"""No command runs code from the folders of its files, or opens a connection to the internet."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.cases import slow
from tests.sandbox import Sandbox

ROOT = Path(__file__).parent.parent
START = f"""
import sys
sys.path.insert(1, {str(ROOT)!r})
from collage_dsl.cli.main import main
main()
"""
"""What the installed command does: its folder is on the path of imports, not the current one."""

TRACE = """
import os, sys
looked_up = os.open({file!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
def hook(event, arguments):
    if event == "import":
        os.write(looked_up, arguments[0].partition(".")[0].encode() + b"\\n")
sys.addaudithook(hook)
"""
"""As `sitecustomize`: writes each module that a process looks up, found or not."""

TARGET = ("--target", "specs/mine.collage")
STORE = ("--store", "store/costs.sqlite")
SPEC = """\
collage 1;
pattern p(x) { y = nn.relu(x); yield y; }
target mine on llvm { rules op_call_by_kind(); }
"""
QUICK = {"check", "compile", "lsp", "run"}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("check", "specs/mine.collage"),
    ("fmt", "specs/mine.collage"),
    ("test", "specs/mine.collage"),
    ("explain", "E0101"),
    ("ops", "nn.*"),
    ("convert", "specs/mine.collage", "--to", "json"),
    ("embed", "specs/mine.collage"),
    ("extract", "specs/target.json"),
    ("candidates", "model/model.onnx", *TARGET),
    ("show", "model/model.onnx"),
    ("coverage", "model/model.onnx", *TARGET),
    ("why", "specs/mine.collage", "model/model.onnx", "--at", "y"),
    ("near", "specs/mine.collage", "model/model.onnx"),
    ("plan", "model/model.onnx", *TARGET, *STORE),
    ("compile", "model/model.onnx", *TARGET, "--target", "onnxruntime", *STORE, "-o", "saved/out"),
    ("run", "saved/out", "--outputs", "saved/y.npz"),
    ("demo", "--model", "model/model.onnx", *STORE),
    ("doctor",),
    ("lsp",),
)
"""In an order in which each has the files that it needs. `bench` does a part of `compile`."""


class Place:
    """A sandbox with a trap in each folder for every module that a command could look up."""

    def __init__(self, sandbox: Sandbox, beside: Path) -> None:
        self.sandbox = sandbox
        self.beside = beside
        self.traps: set[str] = set()
        self.trapped, self.looked_up, self.sockets = (
            beside / name for name in ("trapped", "looked_up", "sockets")
        )

    def set_traps(self, names: Iterable[str]) -> None:
        folder = self.sandbox.folder
        for each in (folder, *(path for path in folder.iterdir() if path.is_dir())):
            for name in names:
                trap = f"open({str(self.trapped)!r}, 'a').write({name!r} + chr(10))\n"
                (each / f"{name}.py").write_text(trap)
        self.traps.update(names)

    def run(self, command: tuple[str, ...]) -> None:
        # The tests themselves run with these.
        unusual = ("PYTHONSAFEPATH", "ORT_DISABLE_TELEMETRY", "CI")
        found = self.sandbox.environment.items()
        usual = {name: value for name, value in found if name not in unusual}
        for file in (self.trapped, self.looked_up, self.sockets):
            file.write_text("")
        done = subprocess.run(
            [*watched(self.sockets), sys.executable, self.beside / "collage", *command],
            cwd=self.sandbox.folder,
            env={**usual, "PYTHONPATH": str(self.beside / "path")},
            capture_output=True,
            text=True,
            input=spoken(self) if command == ("lsp",) else None,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    beside = tmp_path_factory.mktemp("beside")
    sandbox = Sandbox(tmp_path_factory.mktemp("sandbox"))
    (sandbox.folder / "specs").mkdir()
    (sandbox.folder / "model").mkdir()
    (sandbox.folder / "specs" / "mine.collage").write_text(SPEC)
    (sandbox.folder / "model.onnx").rename(sandbox.folder / "model" / "model.onnx")
    target = {"kind": "llvm", "feature.fusion_spec": SPEC}
    (sandbox.folder / "specs" / "target.json").write_text(json.dumps(target))
    (beside / "collage").write_text(START)
    (beside / "path").mkdir()
    hook = TRACE.format(file=str(beside / "looked_up"))
    (beside / "path" / "sitecustomize.py").write_text(hook)
    made = Place(sandbox, beside)
    made.set_traps({*sys.stdlib_module_names, *filter(str.isidentifier, packages_distributions())})
    return made


@pytest.fixture(
    scope="module",
    params=[each if each[0] in QUICK else slow(each) for each in COMMANDS],
    ids=lambda command: command[0],
)
def ran(request: pytest.FixtureRequest, place: Place) -> Place:
    """The place after a command, which ran with a trap for everything that it looked up."""
    place.run(request.param)
    while new := set(place.looked_up.read_text().split()) - place.traps:
        place.set_traps(new)  # such as optional modules, which are not installed
        place.run(request.param)
    return place


def watched(file: Path) -> tuple[str, ...]:
    """What goes before a command, so that the system calls for sockets are written to a file."""
    # With a filter in the kernel, the process stops at these system calls only.
    which = ("--seccomp-bpf", "-f", "-qq", "-e", "trace=network", "-e", "signal=none")
    strace = ("strace", *which, "-o", str(file))
    can = shutil.which("strace") and not subprocess.run([*strace, "true"]).returncode
    return strace if can else ()


def spoken(place: Place) -> str:
    """What an editor says to the language server about a file."""
    file = place.sandbox.folder / "specs" / "mine.collage"
    document = {"uri": file.as_uri(), "languageId": "collage", "version": 1, "text": SPEC}
    messages = (
        ("initialize", 1, {"processId": None, "rootUri": None, "capabilities": {}}),
        ("initialized", None, {}),
        ("textDocument/didOpen", None, {"textDocument": document}),
        ("textDocument/documentSymbol", 2, {"textDocument": {"uri": file.as_uri()}}),
        ("shutdown", 3, None),
        ("exit", None, None),
    )
    said = ""
    for method, number, parameters in messages:
        message = {"jsonrpc": "2.0", "method": method, "params": parameters}
        text = json.dumps(message if number is None else {**message, "id": number})
        said += f"Content-Length: {len(text)}\r\n\r\n{text}"
    return said


def test_a_command_runs_no_module_of_the_folders_that_it_works_in(ran: Place) -> None:
    assert ran.trapped.read_text() == ""
    assert ran.looked_up.read_text()


def test_a_command_opens_no_connection_to_the_internet(ran: Place) -> None:
    assert "AF_INET" not in ran.sockets.read_text()
    # What ONNX Runtime writes to the cache before it sends its telemetry.
    assert not list(ran.sandbox.folder.rglob("*icrosoft*"))


def test_python_looks_into_no_folder_for_modules_if_told_so(place: Place) -> None:
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [sys.executable, "-P", "-m", "collage_dsl.cli.main", "check", "specs/mine.collage"]
    place.trapped.write_text("")

    subprocess.run(command, cwd=place.sandbox.folder, env=usual, check=True)

    assert place.trapped.read_text() == ""


def test_a_trap_would_tell(place: Place) -> None:
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [sys.executable, "-c", "import lark"]

    subprocess.run(command, cwd=place.sandbox.folder, env=usual, check=True)

    assert place.trapped.read_text().split()[-1] == "lark"
