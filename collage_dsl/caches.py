"""Find the folder for what is kept between runs: measured costs, compiled code, parsers."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """
    `$XDG_CACHE_HOME/collage_dsl`, or below `~/.cache` if that is not set. A relative path counts as
    not set, as the XDG Base Directory Specification says. Raises OSError for a user without a home
    folder.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = named if os.path.isabs(named) else Path.home() / ".cache"
        return Path(base, "collage_dsl")
    except RuntimeError:
        raise OSError(
            None, "this user has no home folder: set XDG_CACHE_HOME to a folder for caches"
        ) from None


def make_cache(folder: Path) -> None:
    """Make a folder in the cache. Raises OSError that says which other folder can be named."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OSError(None, "it cannot be written")
    except OSError as error:
        advice = "set XDG_CACHE_HOME to a folder for caches"
        said = f"cannot use the cache {folder}: {error.strerror}; {advice}"
        raise OSError(None, said) from error
