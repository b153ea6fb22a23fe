"""Show warnings of ours on stderr as text for users, without the place in the code."""

import warnings
from typing import TextIO

from collage_dsl.cli.failure import with_options
from collage_dsl.cli.output import tell
from collage_dsl.printable import printable_lines

_OURS = {"RefineWarning", "StoppedWarning", "StoreWarning", "WorkersWarning"}
"""Only their names, because their modules are slow to import."""


def show_ours() -> None:
    """From now on; each text is shown once."""
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category.__name__ in _OURS:
            tell(printable_lines(with_options(str(message))))
        else:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = show
