"""A worker survives whatever its tasks do."""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from threading import Timer

import pytest

from collage_dsl.measuring import worker as worker_module
from collage_dsl.measuring.worker import Failed, Worker


def work(task: str) -> str | int:
    match task:
        case "crash":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(3600)
        case "raise":
            raise ValueError("the first line\nthe second")
        case "exit":
            os._exit(3)
        case "memory":
            raise MemoryError
        case "later":
            Timer(0.1, os._exit, [0]).start()
        case "print":
            os.write(1, b"noise")
        case "process":
            return os.getpid()
    return f"did {task}"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker[str, str | int]]:
    with Worker(work, timeout=60) as found:
        yield found


def test_a_task_is_answered_in_another_process(worker: Worker[str, str | int]) -> None:
    assert worker.run("this") == "did this"
    assert worker.run("process") != os.getpid()


def test_the_process_is_kept_from_task_to_task(worker: Worker[str, str | int]) -> None:
    assert worker.run("process") == worker.run("process")


def test_a_task_can_have_a_time_limit_of_its_own() -> None:
    with Worker(work, timeout=0) as hurried:
        assert hurried.run("this", timeout=600) == "did this"


class Slow:
    """The connection to a process that is ready, and done, in the end; what it was waited for."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.sent: list[str] = []

    def poll(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return True

    def recv(self) -> str | None:
        return work(self.sent[-1]) if self.sent else None  # type: ignore[return-value]

    def send(self, task: str) -> None:
        self.sent.append(task)


def test_the_time_of_a_task_begins_when_its_process_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow()
    monkeypatch.setattr(Worker, "_start", lambda _: slow)

    assert Worker(work, timeout=60).run("this", timeout=0.01) == "did this"
    first, last = slow.waits
    assert first > 60
    assert last == 0.01


def ends_at_once(*_: object) -> None:
    """In place of what serves tasks."""


def test_a_process_that_never_is_ready_is_the_fault_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "_serve", ends_at_once)

    with Worker(work, timeout=60) as worker:
        assert worker.run("this") == Failed("no process for it could be started", passing=True)


def test_an_exception_is_the_reason_of_the_failure(worker: Worker[str, str | int]) -> None:
    assert worker.run("raise") == Failed("the first line")


def test_a_crash_fails_its_own_task_only(worker: Worker[str, str | int]) -> None:
    assert worker.run("crash") == Failed("crashed (SIGSEGV)")
    assert worker.run("that") == "did that"


def test_a_process_that_is_killed_is_not_the_fault_of_its_task(
    worker: Worker[str, str | int],
) -> None:
    reason = "the process for it was killed by a person, or by the system because memory ran out"
    assert worker.run("kill") == Failed(reason, passing=True)
    assert worker.run("that") == "did that"


def test_a_process_that_ends_after_its_answer_is_replaced() -> None:
    with Worker(work, timeout=60) as worker:
        assert worker.run("later") == "did later"
        time.sleep(0.5)
        assert worker.run("that") == "did that"
        assert worker.run("that") == "did that"


def test_what_the_machine_lacks_is_told_apart_from_what_the_task_does(
    worker: Worker[str, str | int],
) -> None:
    assert worker.run("memory") == Failed("MemoryError", passing=True)


def test_a_process_that_ends_itself_is_replaced(worker: Worker[str, str | int]) -> None:
    assert worker.run("exit") == Failed("ended with exit code 3")
    assert worker.run("that") == "did that"


def test_a_task_that_hangs_is_ended() -> None:
    with Worker(work, timeout=2) as impatient:
        impatient.timeout = 60
        impatient.run("warm up")
        impatient.timeout = 0.2
        assert impatient.run("hang") == Failed("took longer than 0.2 s", timed_out=True)
        impatient.timeout = 60
        assert impatient.run("that") == "did that"


def test_what_a_task_prints_goes_nowhere(
    worker: Worker[str, str | int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert worker.run("print") == "did print"
    assert capfd.readouterr().out == ""
