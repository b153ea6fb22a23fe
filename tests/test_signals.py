"""Signals while foreign code runs."""

import signal
import subprocess
import sys
from threading import Thread

import pytest

from collage_dsl.measuring.signals import delayed_signals


def test_an_interrupt_comes_after_the_block() -> None:
    before = signal.getsignal(signal.SIGINT)
    steps: list[str] = []

    with pytest.raises(KeyboardInterrupt):  # noqa: PT012, the block is what is tested
        with delayed_signals():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            steps.append("to the end of the block")
        steps.append("after it")

    assert steps == ["to the end of the block"]
    assert signal.getsignal(signal.SIGINT) is before


def test_handlers_are_as_before_where_the_block_fails() -> None:
    before = signal.getsignal(signal.SIGINT)

    with pytest.raises(ValueError, match="foreign"), delayed_signals():
        raise ValueError("foreign")

    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_gets_no_signals() -> None:
    done: list[bool] = []

    def work() -> None:
        with delayed_signals():
            done.append(True)

    thread = Thread(target=work)
    thread.start()
    thread.join()

    assert done == [True]


def started(code: str) -> subprocess.CompletedProcess[str]:
    script = f"import signal, sys\nsys.argv = ['collage', 'ops', 'nn.relu']\n{code}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_an_interrupt_while_the_command_is_imported_is_no_traceback() -> None:
    done = started(
        "class Late:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'click':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Late)\n"
        "from collage_dsl.cli.start import start\n"
        "start()\n"
    )

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_interrupt_as_the_command_begins_is_no_traceback() -> None:
    done = started(
        "from collage_dsl.cli import interrupt, start\n"
        "class Late(interrupt.Thread):\n"
        "    def start(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "interrupt.Thread = Late\n"
        "start.start()\n"
    )

    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "interrupted")
