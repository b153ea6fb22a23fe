"""Tasks that kill processes of the workers. A worker imports no more than this to do them."""

import os
import signal
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Blow:
    """
    A task that kills its process (`worker`), the process from which that was forked (`server`), or
    the tracker of resources, when it is built or timed for the first time: then there is a `file`.
    """

    name: str
    victims: tuple[str, ...]
    when: str
    file: str
    tracker: int


def struck(task: Blow) -> Generator[None, None, str]:
    if task.when == "building":
        strike(task)
    yield
    if task.when == "timing":
        strike(task)
    return f"did {task.name}"


def strike(task: Blow) -> None:
    if not task.victims or Path(task.file).exists():
        return
    Path(task.file).touch()
    numbers = {"worker": os.getpid(), "server": os.getppid(), "tracker": task.tracker}
    for victim in task.victims:
        os.kill(numbers[victim], signal.SIGKILL)
