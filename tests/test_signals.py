"""Signals while foreign code runs."""

import signal
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
