"""
Run the tests of ONNX's own package: nodes, simple models, and models that PyTorch wrote.

    python benchmarks/conformance.py
    python benchmarks/conformance.py --only lstm
    python benchmarks/conformance.py --kind cuda

Each case that onnxruntime loads is imported, planned for `native` and `onnxruntime`, built, and
run on its own inputs. Its outputs are compared with those of the case, at its own tolerance. Where
onnxruntime itself is wrong, that is said beside it. With `--tvm`, TVM's own importer and default
pipeline run the same cases. With `--kind`, native kernels run on the device of that kind of TVM
target, and cases that need another backend count as wrong. Each case has a process of its own.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import Process, get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import tvm
from onnx_cases import (
    CPU,
    Case,
    cases,
    check,
    is_run_by_onnxruntime,
    run,
    run_in_onnxruntime,
    specs,
)
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

SECONDS = 60.0
"""The seconds after which a case has failed."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a case gave; an empty text where all was right, and else why not."""

    kind: str
    name: str
    ours: str
    onnxruntime: str
    tvm: str
    native: int = 0
    calls: int = 0
    kept: int = 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the cases with this in their names")
    parser.add_argument("--tvm", action="store_true", help="run TVM's own importer too")
    parser.add_argument("--kind", default=CPU, help="the kind of TVM target to run on")
    given = parser.parse_args(arguments)
    specs(given.kind)  # Loaded here, and not again in each process.
    chosen = (case for case in cases() if given.only in case.name)
    results = list(_isolated(chosen, given.kind, with_tvm=given.tvm))
    for line in _report(results, with_tvm=given.tvm):
        print(line)
    return 0


def _report(results: list[Result], *, with_tvm: bool) -> Iterator[str]:
    yield "| cases | onnxruntime loads | it is right | we are right | ours alone wrong | TVM |"
    yield "|---|---:|---:|---:|---:|---:|"
    kinds = dict.fromkeys(each.kind for each in results)
    for kind in (*kinds, "all"):
        rows = [each for each in results if kind in (each.kind, "all")]
        alone = sum(bool(each.ours) and not each.onnxruntime for each in rows)
        tvm_right = str(sum(not each.tvm for each in rows)) if with_tvm else "-"
        yield (
            f"| {kind} | {len(rows)} | {sum(not each.onnxruntime for each in rows)} "
            f"| {sum(not each.ours for each in rows)} | {alone} | {tvm_right} |"
        )
    counts = Counter[str]()
    for each in results:
        counts.update(native=each.native, calls=each.calls, kept=each.kept)
    yield ""
    yield (
        f"{counts['native']} of {counts['calls']} operator calls are native, the others run in "
        f"onnxruntime; {counts['kept']} are no operators of Relax"
    )
    for title, rows in (
        ("wrong by us alone", [e for e in results if e.ours and not e.onnxruntime]),
        ("wrong by onnxruntime and by us", [e for e in results if e.ours and e.onnxruntime]),
    ):
        yield f"\n{len(rows)} {title}"
        yield from (f"  {each.name}: {each.ours[:200]}" for each in rows)


def _isolated(every: Iterable[Case], kind: str, *, with_tvm: bool) -> Iterator[Result]:
    """The results of all cases that onnxruntime loads, in the order in which they end."""
    left = iter(every)
    running: dict[Any, _Child] = {}
    while True:
        while len(running) < len(os.sched_getaffinity(0)) and (case := next(left, None)):
            child = _Child(case, kind, with_tvm=with_tvm)
            running[child.connection] = child
        if not running:
            return
        soonest = min(child.deadline for child in running.values())
        ended = wait(list(running), max(0.0, soonest - time.monotonic()))
        late = [c for c, child in running.items() if child.deadline <= time.monotonic()]
        for connection in {*ended, *late}:
            result = running.pop(connection).result()
            if result is not None:
                yield result


class _Child:
    """A process that runs one case."""

    def __init__(self, case: Case, kind: str, *, with_tvm: bool) -> None:
        self.case = case
        self.connection, theirs = get_context("fork").Pipe()
        self.process = Process(target=_work, args=(theirs, case, kind, with_tvm), daemon=True)
        self.process.start()
        theirs.close()
        self.deadline = time.monotonic() + SECONDS

    def result(self) -> Result | None:
        """None for a case that onnxruntime does not load."""
        failed = ""
        try:
            if self.connection.poll():
                found: Result | None = self.connection.recv()
                return found
            failed = f"took longer than {SECONDS:g} s"
        except EOFError:
            self.process.join()
            failed = f"ended with code {self.process.exitcode}"
        finally:
            self.process.kill()
            self.process.join()
            self.connection.close()
        return Result(self.case.kind, self.case.name, failed, "", failed)


def _work(connection: Connection, case: Case, kind: str, with_tvm: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # TVM warns of what it cannot convert.
    connection.send(_result(case, kind, with_tvm) if is_run_by_onnxruntime(case) else None)


def _result(case: Case, kind: str, with_tvm: bool) -> Result:
    own, _ = _tried(lambda: run_in_onnxruntime(case))
    ours, counts = _tried(lambda: run(case, kind))
    by_tvm = _tried(lambda: _run_in_tvm(case))[0] if with_tvm else ""
    if counts is None:
        return Result(case.kind, case.name, ours, own, by_tvm)
    numbers = counts.native, counts.all, counts.as_they_are
    return Result(case.kind, case.name, ours, own, by_tvm, *numbers)


def _tried(function: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "", function()
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}", None


def _run_in_tvm(case: Case) -> None:
    module = from_onnx(case.model, keep_params_in_input=False)
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm"}))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    names = [param.name for param in module["main"].params]
    for inputs, right in case.runs:
        feeds = dict(zip(case.input_names, inputs, strict=True))
        found = machine["main"](*(tvm.runtime.tensor(feeds[name]) for name in names))
        values = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
        outputs = [value.name for value in case.model.graph.output]
        check(case, {n: v.numpy() for n, v in zip(outputs, values, strict=True)}, right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
