"""A worker survives whatever its tasks do."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from collage_dsl.cost import Refusal
from collage_dsl.measuring import process as process_module
from collage_dsl.measuring import worker as worker_module
from collage_dsl.measuring.memory import default_limit
from collage_dsl.measuring.process import Failed, WorkersWarning
from collage_dsl.measuring.worker import Workers

MEMORY = 1 << 30
"""More bytes than processes have that are given so many besides what they begin with."""


def allocate_in_cpp() -> None:
    """End as a library does that does not catch `std::bad_alloc`."""
    libstdcxx = ctypes.CDLL("libstdc++.so.6")
    new = libstdcxx._Znwm  # operator new(unsigned long)
    new.argtypes, new.restype = [ctypes.c_size_t], ctypes.c_void_p
    for _ in range(8):
        new(MEMORY)


kept: list[bytearray] = []
"""What tasks keep in their process."""


def work(task: str) -> Generator[None, None, str | int]:
    match task:
        case "crash":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(3600)
        case "hang alone":
            yield
            time.sleep(3600)
        case "crash alone":
            yield
            ctypes.string_at(0)
        case "alone":
            yield
            return "did it alone"
        case "raise":
            raise ValueError("the first line\nthe second")
        case "exit":
            os._exit(3)
        case "full":
            raise OSError("no space left")
        case "memory":
            return len(bytearray(MEMORY))
        case "keep memory":
            kept.append(bytearray(MEMORY * 9 // 16))
            return len(kept)
        case "memory in C++":
            allocate_in_cpp()
        case "compiler":
            with subprocess.Popen(["sleep", "1000"]) as process:
                yield
                process.wait()
        case "group":
            return os.getpgrp()
        case "later":
            Timer(0.1, os._exit, [0]).start()
        case "print":
            os.write(1, b"noise")
        case "process":
            return os.getpid()
    return f"did {task}"


serve = process_module._serve
Answer = str | int | Failed


def job(
    tasks: Iterable[str], answers: list[Answer], limit: float = 60
) -> Generator[tuple[str, float], Answer, None]:
    for task in tasks:
        answers.append((yield task, limit))


def run(workers: Workers[str, str | int], task: str, limit: float = 60) -> Answer:
    answers: list[Answer] = []
    workers.run([job([task], answers, limit)])
    (answer,) = answers
    return answer


@pytest.fixture(scope="module")
def worker() -> Iterator[Workers[str, str | int]]:
    with Workers(work) as found:
        yield found


def test_a_task_is_answered_in_another_process(worker: Workers[str, str | int]) -> None:
    assert run(worker, "this") == "did this"
    assert run(worker, "process") != os.getpid()


def test_the_process_is_kept_from_task_to_task(worker: Workers[str, str | int]) -> None:
    assert run(worker, "process") == run(worker, "process")


def test_the_tasks_of_a_job_go_to_one_process_and_jobs_to_several() -> None:
    first: list[Answer] = []
    second: list[Answer] = []
    with Workers(work, count=2) as workers:
        workers.run([job(["process", "process"], each) for each in (first, second)])
    assert len(set(first)) == len(set(second)) == 1
    assert first != second


def test_more_jobs_than_processes_are_all_done() -> None:
    answers: list[list[Answer]] = [[] for _ in range(7)]
    with Workers(work, count=3) as workers:
        workers.run(job([f"{at}", "alone"], each) for at, each in enumerate(answers))
    assert answers == [[f"did {at}", "did it alone"] for at in range(7)]


def noted(file: str) -> Generator[None, None, str]:
    """Notes when it begins and ends what may run side by side, and what must run alone."""

    def note(what: str) -> None:
        with open(file, "a") as notes:
            notes.write(what + "\n")

    note("begin")
    until = time.monotonic() + 30
    while Path(file).read_text().count("begin") % 2 and time.monotonic() < until:
        time.sleep(0.01)  # Until the other one has begun too.
    note("built")
    yield
    note("alone")
    time.sleep(0.05)
    note("end")
    return "done"


def test_processes_work_side_by_side_until_one_must_be_alone(tmp_path: Path) -> None:
    file, answers = tmp_path / "notes", [[], []]  # type: ignore[var-annotated]
    file.touch()
    with Workers(noted, count=2) as workers:
        workers.run([job([str(file)] * 2, each) for each in answers])
    assert answers == [["done", "done"], ["done", "done"]]
    together = ["begin", "begin", "built", "built", "alone", "end", "alone", "end"]
    assert file.read_text().split() == together * 2


@pytest.mark.parametrize("bad", ["crash", "hang", "raise", "hang alone", "crash alone"])
def test_what_one_does_harms_no_other(bad: str) -> None:
    answers: list[list[Answer]] = [[], [], []]
    with Workers(work, count=2) as workers:
        run(workers, "warm up")
        tasks = [["this", "alone"], [bad, "that"], ["other"]]
        limits = [60, 1 if "hang" in bad else 60, 60]
        workers.run(map(job, tasks, answers, limits))
    (first, (failed, after), last) = answers
    assert first == ["did this", "did it alone"]
    assert isinstance(failed, Failed)
    assert (failed.kind is Refusal.TIME) == ("hang" in bad)
    assert after == "did that"
    assert last == ["did other"]


def test_what_is_left_of_a_run_that_failed_answers_no_other_task() -> None:
    def failing() -> Generator[tuple[str, float], Answer, None]:
        yield "this", 60.0
        raise LookupError("no more")

    with Workers(work, count=2) as workers:
        with pytest.raises(LookupError, match="no more"):
            workers.run([job(["alone"], []), failing()])
        assert run(workers, "that") == "did that"


def test_a_process_has_longer_to_start_than_tasks_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sleep` stands for the imports."""
    monkeypatch.setattr(process_module, "_serve", starts_late)

    with Workers(work) as workers:
        assert run(workers, "this", 0.05) == "did this"


def starts_late(*arguments: Any) -> None:
    time.sleep(0.5)
    serve(*arguments)


def test_a_process_that_does_not_begin_is_the_fault_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "_serve", sleeps)
    monkeypatch.setattr(process_module, "_STARTING", 0.2)
    monkeypatch.setattr(worker_module, "_PATIENCE", 0.0)

    with Workers(work) as workers:
        failed = Failed("no process for it could be started", passing=True)
        assert run(workers, "this") == failed


def sleeps(*_: object) -> None:
    time.sleep(1000)


def test_the_time_of_a_task_begins_when_its_process_is_ready() -> None:
    with Workers(work) as hurried:
        assert run(hurried, "this", 0.05) == "did this", "which starts in more time than that"


def ends_at_once(*_: object) -> None:
    """In place of what serves tasks."""


def test_a_process_that_never_is_ready_is_the_fault_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "_serve", ends_at_once)

    with Workers(work) as worker:
        assert run(worker, "this") == Failed("no process for it could be started", passing=True)


def test_a_signal_comes_after_a_process_has_been_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins to start and is left alone prints a traceback."""
    begins, started = ForkServerProcess.start, list[int | None]()

    def start(process: ForkServerProcess) -> None:
        signal.raise_signal(signal.SIGTERM)
        begins(process)
        started.append(process.pid)

    def terminated(*_: object) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(ForkServerProcess, "start", start)
    before = signal.signal(signal.SIGTERM, terminated)
    try:
        with pytest.raises(SystemExit), Workers(work) as workers:
            run(workers, "this")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(started) == 1


def test_an_exception_is_the_reason_of_the_failure(worker: Workers[str, str | int]) -> None:
    assert run(worker, "raise") == Failed("the first line")


def test_a_crash_fails_its_own_task_only(worker: Workers[str, str | int]) -> None:
    assert run(worker, "crash") == Failed("crashed (SIGSEGV)", Refusal.CRASH)
    assert run(worker, "that") == "did that"


def test_a_task_whose_process_is_killed_again_and_again_is_not_at_fault(
    worker: Workers[str, str | int],
) -> None:
    reason = "the process for it was killed by a person, or by the system because memory ran out"
    with pytest.warns(WorkersWarning, match="was killed; the kernel is measured again") as said:
        assert run(worker, "kill") == Failed(reason, passing=True, again=True)
    assert len(said) == 2
    assert run(worker, "that") == "did that"


def test_a_process_that_ends_after_its_answer_is_replaced() -> None:
    with Workers(work) as worker:
        assert run(worker, "later") == "did later"
        time.sleep(0.5)
        assert run(worker, "that") == "did that"
        assert run(worker, "that") == "did that"


def test_what_the_machine_lacks_is_told_apart_from_what_the_task_does(
    worker: Workers[str, str | int],
) -> None:
    assert run(worker, "full") == Failed("no space left", passing=True)


@pytest.mark.parametrize("task", ["memory", "memory in C++"])
def test_a_task_that_takes_too_much_memory_is_refused(task: str) -> None:
    with Workers(work, memory=MEMORY) as workers:
        reason = Failed("took more than 1 GiB of memory", Refusal.MEMORY)
        assert run(workers, task) == reason
        assert run(workers, "that") == "did that"


def test_what_earlier_tasks_have_kept_does_not_count_as_memory_of_a_task() -> None:
    with Workers(work, memory=MEMORY) as workers:
        assert [run(workers, "keep memory") for _ in range(3)] == [1, 1, 1]


def test_a_task_may_take_half_of_the_memory_of_the_machine() -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < default_limit() <= total // 2
    with Workers(work) as workers:
        assert run(workers, "memory") == MEMORY


def test_a_process_leads_a_group_of_its_own(worker: Workers[str, str | int]) -> None:
    assert run(worker, "group") == run(worker, "process")


def children(group: int) -> list[int]:
    """The processes of a group that are alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        state, _, its_group, *_ = rest.split()
        if int(its_group) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found


def test_what_a_process_has_started_ends_with_it_at_the_limit() -> None:
    with Workers(work) as workers:
        group = run(workers, "group")
        assert isinstance(group, int)
        assert run(workers, "compiler", 0.5) == Failed("took longer than 0.5 s", Refusal.TIME)
        end = time.monotonic() + 30
        while alive := children(group):
            assert time.monotonic() < end, alive
            time.sleep(0.01)


def test_a_process_that_ends_itself_is_replaced(worker: Workers[str, str | int]) -> None:
    assert run(worker, "exit") == Failed("ended with exit code 3", Refusal.CRASH)
    assert run(worker, "that") == "did that"


@pytest.mark.parametrize("task", ["hang", "hang alone"])
def test_a_task_that_hangs_is_ended(task: str) -> None:
    with Workers(work) as worker:
        assert run(worker, task, 0.2) == Failed("took longer than 0.2 s", Refusal.TIME)
        assert run(worker, "that") == "did that"


def test_what_a_task_prints_goes_nowhere(
    worker: Workers[str, str | int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(worker, "print") == "did print"
    assert capfd.readouterr().out == ""
