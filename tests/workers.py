"""In place of worker processes: tasks are answered, or done, in this one."""

from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def answer_jobs(
    jobs: Iterable[Generator[tuple[Task, float], Answer, None]],
    answer: Callable[[Task, float], Answer],
) -> None:
    """Give each task of `jobs` its `answer`, which hears the time limit too."""
    for job in jobs:
        with suppress(StopIteration):
            task, limit = next(job)
            while True:
                task, limit = job.send(answer(task, limit))


def done(steps: Generator[None, None, Any]) -> Any:
    """The result of a task, whose steps follow each other at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
