"""`collage lsp`: run the language server for an editor."""

import gc
from pathlib import Path

from collage_dsl.cli.config import Configs
from collage_dsl.cli.failure import WRONG, CommandError
from collage_dsl.cli.output import binary_output
from collage_dsl.lsp.files import Settings

_NEVER = 1_000_000_000
"""More collections of the second generation than a server makes."""


def serve() -> int:
    """
    Serve an editor on standard input and output until it asks to stop. As the protocol says, the
    exit code is 1 where the editor ends it without `shutdown`.
    """
    try:
        from collage_dsl.lsp.requests import make_server
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in ("pygls", "lsprotocol"):
            raise
        advice = "install it with: pip install 'collage_dsl[lsp]'"
        message = f"this command needs {missing.name}, which is not installed; {advice}"
        raise CommandError(message) from None
    server = make_server(_settings)
    # Python would search all objects for cycles now and then, and hold up an answer. What is loaded
    # by now stays, so it need not be searched; the rest is, when the editor is quiet.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], _NEVER)
    server.start_io(stdout=binary_output())
    return WRONG if server.is_broken_off else 0


def _settings(file: Path) -> Settings:
    """The section `[tool.collage]` for `file`. It is read each time, since it may change."""
    try:
        config = Configs().of(file)
    except CommandError as problem:
        return Settings(problem=str(problem))
    return Settings(config.path, config.ignored(file))
