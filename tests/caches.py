"""The C++ code of the package in a cache of a test's own, where compiling it takes ten seconds."""

import shutil
from pathlib import Path


def with_compiled_code(cache: Path) -> None:
    """Copy the code that is compiled for this user to `cache`, which is `$XDG_CACHE_HOME` later."""
    from collage_dsl.backends.runtime import build

    compiled = build.kernel_library().parent
    shutil.copytree(compiled, cache / "collage_dsl" / compiled.parent.name / compiled.name)
