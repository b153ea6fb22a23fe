"""Read files of a git revision, which is written as git writes it: `main:specs/x86.collage`."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from collage_dsl.cli.failure import CommandError
from collage_dsl.resources import shipped_spec


@contextmanager
def files_at(named: str) -> Iterator[Path]:
    """
    The file or folder `named`: a path, or else a shipped spec, or else `REVISION:PATH`. The specs
    of the whole revision and their configuration are beside it, for imports, until the block ends.
    PATH begins at the top of the repository, or at the current folder if it begins with `./`.
    Raises CommandError.
    """
    if named == "-":
        raise CommandError(
            "OLD and NEW are not read from standard input: give paths (`./-` for a file of this "
            "name)"
        )
    revision, colon, path = named.partition(":")
    if Path(named).exists() or not colon:
        yield Path(named) if Path(named).exists() else shipped_spec(named) or Path(named)
        return
    if revision.startswith("-"):
        raise CommandError(f"{named}: a revision does not begin with `-`")
    top = _top(named)
    _check_revision(named, revision)
    if path.startswith("./"):
        path = _git("rev-parse", "--show-prefix").decode().rstrip("\n") + path[2:]
    with TemporaryDirectory(prefix="collage-") as folder:
        _extract(top, revision, Path(folder))
        if not (Path(folder) / path).exists():
            raise CommandError(f"{named}: there is no such file, or no spec in such a folder")
        yield Path(folder) / path


def _top(named: str) -> Path:
    try:
        return Path(_git("rev-parse", "--show-toplevel").decode().rstrip("\n"))
    except CommandError as error:
        missing = "there is no such file, and no repository whose revision it could name"
        raise CommandError(f"{named}: {missing} ({error})") from None


def _check_revision(named: str, revision: str) -> None:
    try:
        _git("rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}")
    except CommandError:
        advice = "in a clone of part of the history, fetch it first"
        raise CommandError(f"{named}: git finds no revision `{revision}`; {advice}") from None


def _extract(top: Path, revision: str, folder: Path) -> None:
    """Write the specs of `revision` and their configuration to `folder`."""
    listed = _git("ls-tree", "-r", "-z", "--name-only", "--full-tree", revision)
    names = [name for name in listed.split(b"\0") if _is_wanted(name)]
    if names:
        archive = _git("-C", str(top), "archive", "--format=tar", revision, "--", *names)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                if (content := tar.extractfile(member)) and ".." not in Path(member.name).parts:
                    file = folder / member.name.lstrip("/")
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content.read())


def _is_wanted(name: bytes) -> bool:
    return name.endswith(b".collage") or name.rpartition(b"/")[2] == b"pyproject.toml"


def _git(*arguments: str | bytes) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise CommandError("files of a revision need git, which is not installed") from None
    if done.returncode:
        said = done.stderr.decode(errors="backslashreplace").strip() or "it failed"
        raise CommandError(f"git: {said.splitlines()[0]}")
    return done.stdout
