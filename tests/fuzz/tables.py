"""Random cost tables, damaged cost stores, and what stands in place of a file."""

import os
import re
import sqlite3
from pathlib import Path
from random import Random

from collage_dsl.cost import CostStore, Measurement
from tests.fuzz.protobuf import damaged

TABLE = """\
native: {launch: 2.0e-6, discount: 0.9, ops: {"nn.*": 3.0e-4, "*": 1.0e-5}}
onnxruntime:
  launch: 1e-6
  ops:
    nn.conv2d: 0.0002
    "*": 1.0e-5
"""
TOKENS = (
    *re.findall(r"[\w.*]+|\S", TABLE),
    *("2001-01-01", "2001-99-99", "1:2:3", ".nan", "-.inf", "9" * 5000, "1e999", "~", "&a", "*a"),
    *("<<: *a", "!!python/object:os.system", "!!binary", "[" * 3000, "{a: " * 500, "- " * 900),
    *("\0", "\x85", "é", "? ", "---", "|", "'", "0x10", "yes", "\t", "%YAML 9.9\n---\n"),
)


def table(seed: int) -> bytes:
    """The content of a file that is a cost table, or nearly one."""
    chosen = Random(seed)
    text = TABLE
    for _ in range(chosen.randrange(5)):
        start = chosen.randrange(len(text) + 1)
        end = start + chosen.randrange(9)
        text = f"{text[:start]}{chosen.choice(TOKENS)}{text[end:]}"
    content = text.encode()
    return damaged(content, chosen) if chosen.random() < 0.2 else content


def write_store(path: Path, seed: int) -> None:
    """A cost store that is damaged, or whose rows no version wrote."""
    chosen = Random(seed)
    with CostStore(path) as store:
        store.put(Measurement("k", "c", "label", 1e-6))
    with sqlite3.connect(path) as connection:
        for statement in chosen.choices(_STATEMENTS, k=chosen.randrange(2)):
            connection.execute(statement)
    connection.close()
    if chosen.random() < 0.7:
        path.write_bytes(damaged(path.read_bytes(), chosen))


_STATEMENTS = (
    "PRAGMA user_version = 99",
    "PRAGMA user_version = -1",
    "PRAGMA application_id = 1",
    "PRAGMA application_id = 0",
    "ALTER TABLE cost RENAME COLUMN seconds TO minutes",
    "ALTER TABLE cost RENAME TO costs",
    "CREATE VIEW view AS SELECT * FROM cost",
    "UPDATE cost SET seconds = 1e999",
    "UPDATE cost SET label = x'ff'",
    "UPDATE cost SET variant = x'ff', error = 'text'",
    "DROP TABLE cost",
)


def in_place_of(path: Path, chosen: Random) -> None:
    """A pipe, a folder, a link, or nothing in place of a file."""
    match chosen.randrange(5):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to("/dev/zero")
        case 3:
            path.symlink_to(path.name)
