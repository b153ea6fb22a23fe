"""
Puts the tables of the parser into the wheel, so that nothing has to be made from the grammar
when `collage` first runs. An editable install makes them on first use, for the grammar there
can change.
"""

import json
from pathlib import Path
from runpy import run_path
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
        """What `language.syntax.grammar` would make; that module may need what is not here."""
        maker = run_path(str(Path(self.root, "collage_dsl/language/syntax/table_maker.py")))
        made: dict[str, Any] = maker["kept"](Path(self.root, "grammars", "collage.lark"), start)
        return made
