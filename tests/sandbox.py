"""A folder for everything that a command reads and writes, and what runs in it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import onnx.parser

from tests.caches import with_compiled_code

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { y = Relu (x) }'
SPEC = "collage 1; target mine on llvm { rules op_call_by_kind(); }"

COMPILE = ("compile", "model.onnx", "-t", "mine.collage", "-t", "onnxruntime", "-o", "saved/out")
RUN = ("run", "saved/out", "--outputs", "saved/y.npz")
PLAN = ("plan", "model.onnx", "-t", "mine.collage", "--picture", "saved/plan.svg")
FORMAT = ("fmt", "mine.collage")
STORE = ("--store", "store/costs.sqlite")


class Sandbox:
    """
    Folders of their own for a model, its outputs, its store, caches and temporary files. The caches
    have the C++ code of the package, compiled.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("saved", "store", "cache", "home", "tmp"):
            (folder / name).mkdir()
        with_compiled_code(folder / "cache")
        onnx.save(onnx.parser.parse_model(MODEL), folder / "model.onnx")
        self.spoil_spec()

    def spoil_spec(self) -> None:
        """Give `fmt` something to do."""
        (self.folder / "mine.collage").write_text(SPEC)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "HOME": str(self.folder / "home"),
        }

    def start(self, *command: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        """Start a command in a process group of its own."""
        return subprocess.Popen(
            [*before, sys.executable, "-m", "collage_dsl.cli.main", *command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def run(self, *command: str) -> None:
        """Run a command, which succeeds."""
        with self.start(*command) as process:
            out, err = process.communicate()
        assert process.returncode == 0, out + err

    def files(self) -> set[str]:
        """Everything in the folder."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}

    def processes(self) -> list[int]:
        """The processes that run with the variables of the environment of this sandbox."""
        mark = f"XDG_CACHE_HOME={self.folder / 'cache'}\0".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    found.append(int(process.name))
            except OSError:  # it has ended, or is another user's
                continue
        return found

    def wait_for_processes(self) -> None:
        """Return when no process of the sandbox is alive."""
        end = time.monotonic() + 60
        while alive := self.processes():
            if time.monotonic() > end:
                for process in alive:
                    os.kill(process, signal.SIGKILL)
                raise AssertionError(f"processes {alive} outlived their run")
            time.sleep(0.05)
