"""`docs/versions.md` has the version numbers of the code."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from collage_dsl.cost import CostStore
from collage_dsl.graph.operators import TVM_VERSION
from collage_dsl.language.syntax.whole_text import EDITION

ROOT = Path(__file__).parent.parent
PAGE = " ".join((ROOT / "docs" / "versions.md").read_text("utf-8").split())


def test_the_page_names_the_edition_and_the_release_of_tvm() -> None:
    assert f"`collage {EDITION};`. Edition {EDITION} is the only one." in PAGE
    assert f"`collage_dsl.graph.operators.TVM_VERSION`, now {TVM_VERSION})" in PAGE


def test_the_page_names_the_format_of_the_cost_store(tmp_path: Path) -> None:
    CostStore(tmp_path / "costs.sqlite").close()

    with closing(sqlite3.connect(tmp_path / "costs.sqlite")) as store:
        (owner,) = store.execute("PRAGMA application_id").fetchone()
        (number,) = store.execute("PRAGMA user_version").fetchone()
    assert f"id `{owner.to_bytes(4).decode()}`" in PAGE
    assert f"format number (`user_version`), now {number}." in PAGE


def test_the_page_names_the_format_of_the_kernels_of_libraries() -> None:
    source = (ROOT / "collage_dsl" / "backends" / "runtime" / "kernel_module.cc").read_text("utf-8")
    (kind,) = re.findall(r'kKind = "(.*?)"', source)

    assert f"(`{kind}`)" in PAGE


@pytest.mark.engine
def test_the_page_names_the_format_of_a_saved_folder() -> None:
    from collage_dsl.realization.signature import FORMAT

    assert f"another format (now {FORMAT})" in PAGE
