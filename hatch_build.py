"""
Puts the tables of the parser into the wheel, so that nothing has to be made from the grammar
when `collage` first runs. An editable install makes them on first use, for the grammar there
can change.
"""

import json
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STARTS = ("file", "graph_text")


class TablesHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"
    folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self.folder = folder = Path(mkdtemp(prefix="collage-tables-"))
        for start in STARTS:
            file = folder / f"{start}.tables.json"
            file.write_text(json.dumps(self.tables(start), separators=(",", ":")), "utf-8")
            build_data["force_include"][str(file)] = f"collage_dsl/grammars/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.folder is not None:
            rmtree(self.folder)

    def tables(self, start: str) -> dict[str, Any]:
        """What `collage_dsl.language.grammar` would make; that module may need what is not here."""
        language = Path(self.root, "collage_dsl", "language")
        sys.path.insert(0, str(language))
        try:
            import table_maker
        finally:
            sys.path.remove(str(language))
        return table_maker.kept(Path(self.root, "grammars", "collage.lark"), start)
