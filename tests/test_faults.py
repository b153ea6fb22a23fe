"""Faults while kernels are measured: nothing is lost, and the result is right."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from multiprocessing import resource_tracker
from pathlib import Path

import onnx
import pytest
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.backends.base import Backend
from collage_dsl.cost import CostStore, Infeasible, Measurement, Refusal
from collage_dsl.cost import expiry as expiry_module
from collage_dsl.engine.compile import backends_of
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Toolchain
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.process import Failed, WorkersWarning
from collage_dsl.measuring.worker import Workers
from collage_dsl.report.documents import MeasurementsDocument
from collage_dsl.report.text import measurements_text
from collage_dsl.rules import FusionSpec, OpCallByKind
from tests.blows import Blow, struck
from tests.cases import covering, slow
from tests.commands import said as command
from tests.faulty_backends import Crashing, Hanging
from tests.models import small_convolution
from tests.planted_backends import (
    DyingOnce,
    Greedy,
    OffWhenLarge,
    WritingToOperands,
    WrongForNegative,
)
from tests.sandbox import COMPILE, MODEL, PLAN, STORE, Sandbox

NATIVE = FusionSpec(Toolchain("tvm"), OpCallByKind())


# ---- Processes that are killed ----


def tracker() -> int:
    resource_tracker.ensure_running()
    number = resource_tracker._resource_tracker._pid  # type: ignore[attr-defined]
    assert isinstance(number, int)
    return number


def asked(
    tasks: Sequence[Blow], answers: list[str | Failed]
) -> Generator[tuple[Blow, float], str | Failed, None]:
    for task in tasks:
        answers.append((yield task, 60.0))


def all_answers(victims: tuple[str, ...], when: str, file: str) -> list[list[str | Failed]]:
    """The answers of three jobs, of which the second deals a blow, and of one more in the end."""
    harmless = [Blow(f"{at}", (), when, file, 0) for at in range(4)]
    answers: list[list[str | Failed]] = [[], [], []]
    with Workers(struck, count=2) as workers:
        blow = Blow("blow", victims, when, file, tracker())
        jobs = [[harmless[0]], [blow, harmless[1]], [harmless[2]]]
        workers.run(map(asked, jobs, answers))
    with Workers(struck) as workers:  # Needs a new process in any case.
        workers.run([asked([harmless[3]], answers[0])])
    return answers


_VICTIMS = [
    (["worker"], "a process that measured a kernel was killed"),
    (["server"], "the server that starts processes for kernels was killed"),
    (["tracker"], "the tracker of resources was killed"),
    (["tracker", "server", "worker"], "a process that measured a kernel was killed"),
]
_TWO = (["server", "worker"], "the server that starts processes for kernels was killed")


@pytest.mark.parametrize(
    ("victims", "said", "when"), covering(_VICTIMS, ["building", "timing"], rest=[_TWO])
)
def test_what_is_killed_is_started_again_and_no_task_is_lost(
    victims: list[str], said: str, when: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "struck")
    with pytest.warns(WorkersWarning) as warned:
        answers = all_answers(tuple(victims), when, file)

    assert any(said in str(each.message) for each in warned)
    assert answers == [["did 0", "did 3"], ["did blow", "did 1"], ["did 2"]]
    assert Path(file).exists()


def test_a_kernel_whose_process_is_killed_gets_its_cost(tmp_path: Path) -> None:
    backend = DyingOnce(at=str(tmp_path / "died"))
    with CostStore(tmp_path / "costs.sqlite") as store:
        with pytest.warns(WorkersWarning, match="measured again in a new one"):
            found = priced(store, backend)
        assert isinstance(found, float)
        assert stored(store, "nn.relu").cost == found


NINE = """<ir_version: 8, opset_import: ["": 17]> nine (float[4, 8] x) => (float[4, 8] y) {
  a = Relu (x)  b = Exp (a)  c = Tanh (b)  d = Neg (c)  e = Abs (d)
  f = Sqrt (e)  g = Sigmoid (f)  h = Softmax (g)  y = Floor (h)
}"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """With a model of nine kernels, which take little time."""
    made = Sandbox(tmp_path)
    onnx.save(parse_model(NINE), tmp_path / "model.onnx")
    return made


def measurements(sandbox: Sandbox, *arguments: str) -> dict[str, int]:
    """The counts of a plan or compilation, which succeeds."""
    with sandbox.start(*arguments, "--output-format", "json") as process:
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    found = json.loads(out)["measurements"]
    assert isinstance(found, dict)
    return found


PLAN_STORED = (*PLAN[:4], *STORE)
COMPILE_STORED = (*COMPILE, *STORE)


def wait_for_line(process: "subprocess.Popen[str]", line: str) -> list[str]:
    """The lines of stderr up to this one."""
    assert process.stderr is not None
    lines: list[str] = []
    while not lines or line not in lines[-1]:
        read = process.stderr.readline()
        assert read, "".join(lines)
        lines.append(read)
    return lines


@pytest.mark.slow
def test_a_command_goes_on_where_all_its_processes_are_killed(sandbox: Sandbox) -> None:
    with sandbox.start(*PLAN_STORED) as process:
        wait_for_line(process, "measuring kernels")
        end = time.monotonic() + 60
        while len(sandbox.processes()) < 4:  # itself, the tracker, the server, a worker
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.5)
        for each in sandbox.processes():
            if each != process.pid:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        _, err = process.communicate()

    assert process.returncode == 0, err
    assert "was killed" in err
    assert "Traceback" not in err
    again = measurements(sandbox, *PLAN_STORED)
    assert again["measured"] == 0
    assert again["infeasible"] == 0
    sandbox.wait_for_processes()


# ---- Wrong results ----


def faulty(backend: Backend) -> FusionSpec:
    return FusionSpec(Toolchain(backend.name, compiler=backend.name), OpCallByKind())


def relu(spec: FusionSpec) -> CandidateKernel:
    return next(c for c in spec.candidates(from_onnx(small_convolution())) if c.label == "nn.relu")


def priced(
    store: CostStore, backend: Backend, *, timeout: float = 60, measures: int | None = None
) -> float | Infeasible:
    """The cost of a relu by `backend`, which is measured so often."""
    spec = faulty(backend)
    with MeasuredCost(backends_of([spec], [backend]), store, timeout=timeout) as cost:
        found = cost(relu(spec))
    assert measures is None or cost.counts.measured == measures
    return found


def stored(store: CostStore, label: str) -> Measurement:
    contexts = [each.context.key for each in store.known()]
    (found,) = (each for each in store.measurements(contexts) if each.label == label)
    return found


def test_a_kernel_that_writes_to_its_operands_is_wrong(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        found = priced(store, WritingToOperands())

    assert found == Infeasible("it writes to its operands", Refusal.WRONG)


@pytest.mark.parametrize(
    ("backend", "draw"), [(OffWhenLarge(), "large"), slow(WrongForNegative(), "usual")]
)
def test_a_kernel_that_is_wrong_on_some_range_never_wins(
    backend: Backend, draw: str, tmp_path: Path
) -> None:
    path = tmp_path / "costs.sqlite"
    made = collage.compile(
        parse_model(MODEL),
        [faulty(backend), NATIVE],
        backends=[backend],
        store=path,
        race_seconds=0.05,
    )

    (by,) = {k.target for k in made.plan.kernels if "relu" in k.label}
    assert by == "tvm"
    with CostStore(path) as store:
        contexts = [each.context.key for each in store.known()]
        (found,) = (
            each.cost
            for each in store.measurements(contexts)
            if isinstance(each.cost, Infeasible) and each.cost.kind is Refusal.WRONG
        )
    assert found.reason.startswith("its results differ from those of `onnxruntime` by ")
    assert found.reason.endswith(f" on {draw} inputs")
    assert made.report.measurements is not None
    assert made.report.measurements.kinds == {"wrong result": 1}


def test_a_wrong_result_is_shown_and_stays(tmp_path: Path, clock: "Clock") -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        first = priced(store, WrongForNegative(), measures=1)
    shown = command("costs", "show", "--store", path, "--kernels")
    assert "1 (1 wrong result)" in shown.out
    assert "wrong result: its results differ from those of `onnxruntime`" in shown.out

    clock.moved = timedelta(days=1000)
    with CostStore(path) as store:
        assert priced(store, WrongForNegative(), measures=0) == first


# ---- Reasons that may pass, and the clock ----


@dataclass
class Clock:
    """The clock by which reasons expire, moved by so much."""

    moved: timedelta = timedelta()
    now: Callable[[], datetime] = expiry_module.now

    def __call__(self) -> datetime:
        return self.now() + self.moved


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("collage_dsl.cli.costs.now", made)  # first, as this imports it
    monkeypatch.setattr(expiry_module, "now", made)
    return made


@pytest.mark.parametrize(
    ("backend", "kind"),
    [(Crashing(), Refusal.CRASH), slow(Hanging(), Refusal.TIME), (Greedy(), Refusal.MEMORY)],
)
def test_a_reason_that_may_pass_is_tried_again_after_some_days(
    backend: Backend, kind: Refusal, tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        first = priced(store, backend, timeout=4, measures=1)
        assert isinstance(first, Infeasible)
        assert stored(store, "nn.relu").cost.kind is kind  # type: ignore[union-attr]
        for days in (0, expiry_module.DAYS - 1, -0.9):
            clock.moved = timedelta(days=days)
            assert priced(store, backend, timeout=4, measures=0) == first
        for days in (expiry_module.DAYS + 1, -30):  # the clock was wrong, or is now
            clock.moved = timedelta(days=days)
            assert priced(store, backend, timeout=4, measures=1) == first
        clock.moved = timedelta()
        on = expiry_module.expiry(stored(store, "nn.relu"))
    assert on > expiry_module.now().strftime("%Y-%m-%d")

    shown = command("costs", "show", "--store", path, "--kernels")
    assert f"1 (1 {kind})" in shown.out
    assert shown.out.count(on[:10]) >= 2
    found = json.loads(command("costs", "show", "--store", path, "--output-format", "json").out)
    assert [each["kinds"] for each in found["contexts"] if each["kinds"]] == [{kind: 1}]
    assert on in {each["retried"] for each in found["contexts"]}


def test_a_kernel_that_was_too_large_is_tried_again_with_more_memory(tmp_path: Path) -> None:
    backend = Greedy()
    spec = faulty(backend)

    def measured(store: CostStore, memory: int) -> tuple[object, int]:
        of = backends_of([spec], [backend])
        with MeasuredCost(of, store, memory=memory) as cost:
            return cost(relu(spec)), cost.counts.measured

    with CostStore(tmp_path / "costs.sqlite") as store:
        assert measured(store, 4 << 30) == (Infeasible("took more than 4 GiB of memory"), 1)
        assert measured(store, 4 << 30) == (Infeasible("took more than 4 GiB of memory"), 0)
        assert measured(store, 5 << 30) == (Infeasible("took more than 5 GiB of memory"), 1)


def test_a_cost_of_another_date_is_used(tmp_path: Path, clock: Clock) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        first = priced(store, replace(Crashing(), on="no operator"), measures=1)
        assert isinstance(first, float)
        for days in (-4000, 4000):
            clock.moved = timedelta(days=days)
            assert priced(store, replace(Crashing(), on="no operator"), measures=0) == first


def test_a_report_says_when_kernels_are_tried_again() -> None:
    found = MeasurementsDocument(
        found=3,
        measured=3,
        reused=0,
        infeasible=1,
        reasons={"crashed (SIGSEGV)": 1},
        kinds={"crash": 1},
        retried="2026-12-01 10:00:00",
    )
    last = measurements_text(found).splitlines()[-1]
    assert last == "  a time-out, a crash or exhausted memory expires, the first on 2026-12-01"
    assert "expires" not in measurements_text(found.model_copy(update={"retried": ""}))


@pytest.mark.parametrize("date", ["", "soon", "2026-13-01 00:00:00"])
def test_a_reason_with_a_date_that_is_none_does_no_harm(date: str) -> None:
    refused = Infeasible("crashed (SIGSEGV)", Refusal.CRASH)
    found = Measurement("a", "b", "c", refused, measured_at=date)
    assert expiry_module.is_expired(found) == bool(date)
    assert expiry_module.expiry(found)


JUMPING = """
import random, time
real, chance = time.time, random.Random(0)
time.time = lambda: real() + chance.uniform(-1e6, 1e6)
"""


@pytest.mark.slow
def test_a_wall_clock_that_jumps_changes_nothing(sandbox: Sandbox) -> None:
    """In each process of the command."""
    (sandbox.folder / "clock").mkdir()
    (sandbox.folder / "clock" / "sitecustomize.py").write_text(JUMPING)
    moved = ("env", f"PYTHONPATH={sandbox.folder / 'clock'}")
    with sandbox.start(*PLAN_STORED, "--timeout", "50", before=moved) as process:
        _, err = process.communicate()
    assert process.returncode == 0, err

    again = measurements(sandbox, *PLAN_STORED)
    assert (again["measured"], again["infeasible"]) == (0, 0)
    with CostStore(sandbox.folder / "store" / "costs.sqlite") as store:
        contexts = [each.context.key for each in store.known()]
        dates = {each.measured_at for each in store.measurements(contexts)}
    today = expiry_module.now()
    for date in dates:
        assert abs(datetime.fromisoformat(date) - today) < timedelta(hours=1)


# ---- A store that two use ----


@pytest.mark.slow
def test_two_compilations_share_a_store(sandbox: Sandbox, tmp_path: Path) -> None:
    other = (*COMPILE_STORED[:-3], str(tmp_path / "saved" / "other"), *STORE)
    with sandbox.start(*COMPILE_STORED) as one, sandbox.start(*other) as two:
        ends = [process.communicate()[1] for process in (one, two)]
    assert (one.returncode, two.returncode) == (0, 0), ends

    with CostStore(sandbox.folder / "store" / "costs.sqlite") as store:
        assert store.faults() == []
    assert measurements(sandbox, *COMPILE_STORED)["measured"] == 0
    for name in ("out", "other"):
        collage.load_executable(tmp_path / "saved" / name)


# ---- Interrupts ----

_PHASES = [
    "importing the model",
    "measuring kernels",
    "building plans",
    "racing plans",
    "comparing with onnxruntime",
    "saving",
]
_QUICK = {"measuring kernels"}
PHASES = [
    each if each in _QUICK else pytest.param(each, marks=pytest.mark.slow) for each in _PHASES
]


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_that_is_interrupted_goes_on_where_it_stopped(sandbox: Sandbox, phase: str) -> None:
    path = sandbox.folder / "store" / "costs.sqlite"
    # A shell lets what it runs in the background ignore the signal.
    with sandbox.start(*COMPILE_STORED, before=("env", "--default-signal=INT")) as process:
        if phase == "saving":
            wait_for_scratch(process, sandbox.folder / "saved")
        else:
            wait_for_line(process, phase)
        if phase == "measuring kernels":
            wait_for_kernels(path, 6)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate()
    sandbox.wait_for_processes()
    if process.returncode == 0:  # It was at its end.
        assert phase == "saving"
    else:
        assert process.returncode == 130, err
        assert err.splitlines()[-1] == "interrupted"
        assert not (sandbox.folder / "saved" / "out").exists()
    before = kernels(path)

    found = measurements(sandbox, *COMPILE_STORED)

    assert not list(sandbox.folder.rglob(".collage-*"))
    collage.load_executable(sandbox.folder / "saved" / "out")
    assert found["infeasible"] == 0
    if phase in _PHASES[2:]:
        assert found["measured"] == 0
    with CostStore(path) as store:
        assert store.faults() == []
    assert kernels(path) >= before
    if phase == "measuring kernels":
        assert found["reused"] + found["measured"] == found["found"]
        assert found["reused"] >= 1


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        slow(signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "terminated: the terminal was closed"),
    ],
)
def test_a_run_that_is_terminated_cleans_up(
    sandbox: Sandbox, number: signal.Signals, code: int, said: str
) -> None:
    before = ("env", f"--default-signal={number.value}")
    with sandbox.start(*PLAN_STORED, before=before) as process:
        wait_for_line(process, "measuring kernels")
        wait_for_kernels(sandbox.folder / "store" / "costs.sqlite", 1)
        process.send_signal(number)
        _, err = process.communicate()

    assert process.returncode == code, err
    assert said in err.splitlines(), err  # TVM may say more, of what it was about to build
    assert "Traceback" not in err
    sandbox.wait_for_processes()
    assert not list((sandbox.folder / "tmp").iterdir())


IN_EXEC = """
import os, signal, sys
from collage_dsl.cli.interrupt import Interrupt
with Interrupt() as interrupt:
    try:
        exec(f"os.kill(os.getpid(), {sys.argv[1]})\\nwhile True: pass")
    except KeyboardInterrupt:
        sys.exit(interrupt.code)
"""


@pytest.mark.parametrize(("number", "code"), [("2", 130), ("15", 143), ("1", 129)])
def test_the_exit_code_is_that_of_the_signal_also_in_code_that_is_made(
    number: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "made.py").write_text(IN_EXEC)
    environment = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tmp_path}"}
    command = ["env", f"--default-signal={number}", sys.executable, "-m", "made", number]
    done = subprocess.run(command, env=environment)

    assert done.returncode == code


@pytest.mark.slow
def test_a_run_outlives_its_terminal_if_it_ignores_that_signal(sandbox: Sandbox) -> None:
    with sandbox.start(*PLAN_STORED, before=("env", "--ignore-signal=HUP")) as process:
        wait_for_line(process, "measuring kernels")
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate()

    assert process.returncode == 0, err


def kernels(path: Path) -> int:
    """How many kernels a store has, besides the overheads of calls."""
    if not path.exists():
        return 0
    with CostStore(path) as store:
        found = store.measurements([each.context.key for each in store.known()])
        return sum(not each.kernel.startswith("overhead.") for each in found)


def wait_for_kernels(path: Path, least: int) -> None:
    end = time.monotonic() + 300
    while kernels(path) < least:
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_for_scratch(process: "subprocess.Popen[str]", folder: Path) -> None:
    wait_for_line(process, "comparing with onnxruntime")
    while process.poll() is None and not list(folder.glob(".collage-*")):
        time.sleep(0.001)


# ---- A full disk ----

FULL = """
mount -t tmpfs -o size=$1 none "$2" || exit 99
place=$2; shift 2
eval "$1" || exit 98
dd if=/dev/zero of="$place/filler" bs=1k 2>/dev/null
eval "$2"; code=$?
find "$place" -name '.collage-*' -not -path '*/tmp/*'
echo "code $code"
rm "$place/filler"
eval "$3" || exit 97
"""


def on_a_full_disk(sandbox: Sandbox, place: str, size: str, *lines: str) -> tuple[str, str]:
    """
    Run three lines of a shell: `place` is a small disk, which is full for the second. What they
    print; in a mount namespace, which ends with them.
    """
    user = ("--map-root-user",) if os.geteuid() else ()
    script = ("unshare", *user, "--mount", "sh", "-c", FULL, "sh", size, place, *lines)
    done = subprocess.run(
        script, cwd=sandbox.folder, env=sandbox.environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def line(*arguments: str) -> str:
    import sys

    return " ".join([sys.executable, "-m", "collage_dsl.cli.main", *arguments])


@pytest.mark.slow  # it needs a mount namespace, which a container may forbid
def test_a_store_on_a_full_disk_keeps_what_it_has_and_goes_on_later(sandbox: Sandbox) -> None:
    both = line("plan", "model.onnx", "-t", "mine.collage", "-t", "onnxruntime", *STORE)
    out, err = on_a_full_disk(
        sandbox,
        "store",
        "256k",
        line(*PLAN_STORED),
        both,
        f"{both} --output-format json",
    )

    assert "code 2" in out
    assert ".collage-" not in out
    assert "is the disk of" in err
    found = json.loads(out[out.index("{") :])["measurements"]
    assert found["reused"] >= 8, "the native kernels"
    assert found["infeasible"] == 0


@pytest.mark.slow  # it needs a mount namespace, which a container may forbid
def test_a_lock_and_a_saved_model_on_a_full_disk_stay_as_they_were(sandbox: Sandbox) -> None:
    freeze = line("freeze", "model.onnx", "-t", "mine.collage", "-o", "saved/lock.json", *STORE)
    save = line(*COMPILE_STORED)
    out, err = on_a_full_disk(
        sandbox,
        "saved",
        "64M",
        f"{freeze} && {save} && cp -r saved/out kept && cp saved/lock.json kept.json",
        f"{freeze}; {save}",
        "cmp saved/lock.json kept.json && diff -r saved/out kept && echo same",
    )

    assert "code 2" in out
    assert ".collage-" not in out
    assert out.rstrip().endswith("same")
    assert err.count("saved") >= 2
    shutil.rmtree(sandbox.folder / "kept")
