"""Find the file of measured costs that a command reads."""

from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.failure import CommandError, existing
from collage_dsl.cost import check_sources
from collage_dsl.cost.sources import MEASURED, RECORDED
from collage_dsl.cost.store import default_store_path


def existing_store(store: Path | None) -> Path:
    """The file of `--store`, or else the usual one. Raises `CommandError` if it does not exist."""
    return existing(_present(store or default_store_path()))


def _present(path: Path) -> Path:
    if not path.exists():
        raise CommandError(
            f"there is no cost store {path}: commands that measure kernels write one, such as "
            "`collage plan`; name another with --store"
        )
    return path


def check_costs(sources: Sequence[str], store: Path | None) -> None:
    """
    Raise what is wrong with the sources of `--costs`, and `CommandError` if recorded costs are
    asked for and there is no store: if `--store` names it, or if nothing else gives costs.
    """
    check_sources(sources)
    is_read_only = RECORDED in sources and MEASURED not in sources
    if is_read_only and (store is not None or set(sources) == {RECORDED}):
        _present(store or default_store_path())
