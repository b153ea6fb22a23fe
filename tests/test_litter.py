"""A run that is killed, interrupted or out of disk space loses nothing and leaves nothing."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

import collage_dsl as collage
from collage_dsl.scratch import replacement, scratch_folder, sweep
from tests.cases import covering
from tests.sandbox import COMPILE, FORMAT, PLAN, RUN, STORE, Sandbox

X = np.array([-1, 0, 2], np.float32)


COMPILE_STORED = (*COMPILE, *STORE)
LONG = (COMPILE_STORED, PLAN)
"""The commands that say on stderr what they do."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """One in which every command has run."""
    made = Sandbox(tmp_path_factory.mktemp("sandbox"))
    for command in (COMPILE_STORED, RUN, PLAN, FORMAT):
        made.run(*command)
    return made


@pytest.fixture(scope="module")
def seconds(sandbox: Sandbox) -> dict[tuple[str, ...], float]:
    """How long each command takes with all caches filled."""
    return {each: seconds_of(sandbox, each) for each in (COMPILE_STORED, RUN, PLAN, FORMAT)}


def seconds_of(sandbox: Sandbox, command: tuple[str, ...]) -> float:
    start = time.monotonic()
    sandbox.run(*command)
    return time.monotonic() - start


def kill(sandbox: Sandbox, command: tuple[str, ...], after: float) -> None:
    """Kill only the main process of a command, if it still runs `after` so many seconds."""
    with sandbox.start(*command) as process:
        time.sleep(after)
        process.kill()
        process.communicate()
    sandbox.wait_for_processes()


def interrupt(sandbox: Sandbox, command: tuple[str, ...], after: float) -> float:
    """
    Interrupt a command as a terminal does, `after` so many seconds from its first line. The seconds
    until it ended.
    """
    with sandbox.start(*command) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        time.sleep(after)
        at_work = process.poll() is None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        start = time.monotonic()
        process.wait()
        took = time.monotonic() - start
        _, err = process.communicate()
    if at_work and process.returncode != 0:  # it may have been at its end
        assert process.returncode == 130, first + err
        assert err.splitlines()[-1] == "interrupted", first + err
        assert err.count("interrupted") == 1
        assert "Traceback" not in err
    sandbox.wait_for_processes()
    return took


def assert_whole(sandbox: Sandbox) -> None:
    """Nothing that was there before is lost or half-written."""
    found = collage.load_executable(sandbox.folder / "saved" / "out").run({"x": X})
    np.testing.assert_array_equal(found["y"], np.maximum(X, 0))
    with closing(sqlite3.connect(sandbox.folder / "store" / "costs.sqlite")) as store:
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert store.execute("SELECT count(*) FROM cost").fetchone() > (0,)


def soak(
    sandbox: Sandbox,
    seconds: dict[tuple[str, ...], float],
    *,
    kills: int,
    interrupts: int,
    seed: int,
) -> None:
    chance = random.Random(seed)
    files = sandbox.files()
    for _ in range(kills):
        command = chance.choice(list(seconds))
        sandbox.spoil_spec()
        kill(sandbox, command, chance.uniform(0, seconds[command]))
        assert_whole(sandbox)
    for _ in range(interrupts):
        command = chance.choice(LONG)
        took = interrupt(sandbox, command, chance.uniform(0, seconds[command] / 2))
        print(f"{command[0]} ended {took:.2f} s after its interrupt")  # noqa: T201, for the reader
        assert_whole(sandbox)
    for command in (COMPILE_STORED, PLAN, FORMAT):  # a store is mended by the next that opens it
        sandbox.run(*command)
    assert sandbox.files() == files
    assert not sandbox.processes()


@pytest.mark.slow
def test_nothing_is_lost_or_left_by_a_few_runs_that_were_killed_or_interrupted(
    sandbox: Sandbox, seconds: dict[tuple[str, ...], float]
) -> None:
    soak(sandbox, seconds, kills=2, interrupts=1, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_nothing_is_lost_or_left_by_many_runs_that_were_killed_or_interrupted(
    sandbox: Sandbox, seconds: dict[tuple[str, ...], float], batch: int
) -> None:
    shutil.rmtree(sandbox.folder / "cache")  # so that compilers run too
    (sandbox.folder / "cache").mkdir()
    kill(sandbox, COMPILE_STORED, batch)
    sandbox.run(*COMPILE_STORED)
    sandbox.run(*PLAN)
    soak(sandbox, seconds, kills=50, interrupts=5, seed=batch)


# ---- A full disk ----

FULL = """
mount -t tmpfs -o size=$1 none "$2" || exit 99
folder=$2; shift 2
"$@"; code=$?
find "$folder" -name '.collage-*' >&2
exit $code
"""


@pytest.mark.slow  # it needs a mount namespace, which a container may forbid
@pytest.mark.parametrize(
    ("folder", "size"), [("tmp", "4k"), ("store", "16k"), ("cache", "64k"), ("saved", "64k")]
)
def test_a_full_disk_is_told_with_its_folder(
    sandbox: Sandbox, tmp_path: Path, folder: str, size: str
) -> None:
    """In a mount namespace of its own, which ends with the command."""
    cache = sandbox.folder / "cache"
    sandbox = Sandbox(tmp_path)
    shutil.copytree(cache, tmp_path / "cache", dirs_exist_ok=True)
    place = tmp_path / folder
    user = ("--map-root-user",) if os.geteuid() else ()
    before = ("unshare", *user, "--mount", "sh", "-c", FULL, "sh", size, str(place))

    with sandbox.start(*COMPILE, *STORE, before=before) as process:
        _, err = process.communicate()

    assert process.returncode == 2, err
    assert str(place) in err
    assert "internal error" not in err
    assert not err.rstrip().splitlines()[-1].startswith(str(place)), "something was left there"
    assert not (tmp_path / "saved" / "out").exists()


# ---- Scratch folders ----


def test_a_scratch_folder_that_is_used_is_not_swept(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as first:
        (first / "kept").touch()
        with scratch_folder(tmp_path) as second:
            assert first != second
        assert (first / "kept").exists()

    assert not list(tmp_path.iterdir())


def test_the_scratch_folder_of_a_killed_process_is_swept(tmp_path: Path) -> None:
    program = f"""
import os, pathlib
from collage_dsl.scratch import scratch_folder
with scratch_folder(pathlib.Path({str(tmp_path)!r})) as folder:
    (folder / "left").touch()
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", program])
    assert list(tmp_path.rglob("left"))

    sweep(tmp_path)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [".collage-settings", ".collage-0123456789ab.old", "collage"])
def test_a_folder_of_another_name_is_not_swept(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()

    sweep(tmp_path)

    assert (tmp_path / name).exists()


def test_a_link_with_the_name_of_a_scratch_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    (tmp_path / ".collage-0123456789ab").symlink_to(tmp_path / "mine")

    sweep(tmp_path)

    assert (tmp_path / "mine" / "file").exists()


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o640)
    (tmp_path / "link").symlink_to(file)

    with suppress(KeyError), replacement(file) as new:
        new.write_text("half")
        raise KeyError
    assert file.read_text() == "old"
    with replacement(tmp_path / "link") as new:
        new.write_text("new")

    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}


# ---- Processes ----

COMPILER = """\
from collage_dsl.backends.runtime.guarded import run_guarded
run_guarded(["sh", "-c", "sleep 1000 & echo started > started; sleep 1000"])
"""
WORKER = """\
from collage_dsl.measuring.worker import Workers
from tests.test_litter import hang
with Workers(hang, count=2) as workers:
    workers.run((task for task in [("started", 1000.0)]) for _ in range(2))
"""


def hang(file: str) -> Generator[None, None, None]:
    """Never return to Python."""
    import ctypes

    Path(file).touch()
    ctypes.PyDLL(None).sleep(1000)
    yield


@pytest.mark.parametrize(
    ("program", "end"),
    covering([COMPILER, WORKER], [signal.SIGKILL, signal.SIGINT]),
    ids={COMPILER: "compiler", WORKER: "worker"}.get,
)
def test_no_process_outlives_the_one_that_started_it(
    tmp_path_factory: pytest.TempPathFactory, program: str, end: signal.Signals
) -> None:
    folder = tmp_path_factory.mktemp("p")  # short, since the path of a socket is
    sandbox = Sandbox(folder)
    # The installed package first, then the folder of the tests.
    folders = Path(str(collage.__file__)).parent.parent, Path(__file__).parent.parent
    path = os.pathsep.join(map(str, folders))
    environment = {**sandbox.environment, "PYTHONPATH": path}
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        while not (folder / "started").exists():
            assert process.poll() is None
            time.sleep(0.05)
        assert len(sandbox.processes()) > 1
        process.send_signal(end)
        process.wait()

    sandbox.wait_for_processes()


BUSY = """\
import os, signal, tempfile, time
from collage_dsl.cli.interrupt import Interrupt
from collage_dsl.scratch import keep_temporary_files_together
keep_temporary_files_together()
with Interrupt():
    os.close(tempfile.mkstemp()[0])
    signal.signal(signal.SIGINT, lambda *_: None)  # as in a library that does not return
    print("started", flush=True)
    while True:
        time.sleep(1)
"""


def test_a_command_that_a_library_holds_leaves_no_temporary_file(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", BUSY],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert list(tmp_path.iterdir())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()

    assert (process.returncode, said) == (130, b"interrupted\n")
    assert list(tmp_path.iterdir()) == []
