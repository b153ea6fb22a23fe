"""
Whether `docs/mutants.md` explains the mutants that survived, and has the numbers of the run.

    python scripts/mutants.py [--write] [MODULE…]

It reads what `mutmut run` left in `mutants/` in this folder; with `--write`, it puts the numbers
into the page. Modules are named as in `coverage`; without any, all that are mutated are meant.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "mutants.md"
MUTATED = Path("mutants") / "collage_dsl" / "language"

_DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBERS = re.compile(r"^\| Module \|.*\n\|[-|]+\|\n((?:\|.*\n)*)", re.MULTILINE)
_HEAD = """\
| Module | Mutants | Refused by mypy | Killed by a test | Surviving |
|---|---|---|---|---|
"""
_ALL = "all"
_OUTCOMES: Mapping[int | None, str] = {
    **dict.fromkeys((None, 2, 34), "untried"),
    **dict.fromkeys((0, 5, 33, 35), "survives"),
    37: "refused",
}
"""
By the exit codes of mutmut: 37 is that of mypy, 5 and 33 say that no test is there. With others
a test failed, or did not end.
"""


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """What differs in a function, whichever number its mutant has."""

    function: str
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"-{line}" for line in self.removed] + [f"+{line}" for line in self.added]
        return "\n".join([self.function, *lines])


def explained(page: str) -> list[Mutant]:
    """The mutants in the `diff` blocks of the page, which have empty lines between them."""
    texts = (text for block in _DIFF.findall(page) for text in block.strip().split("\n\n"))
    return [_mutant(*text.split("\n")) for text in texts]


def _mutant(function: str, *lines: str) -> Mutant:
    removed = tuple(line[1:].strip() for line in lines if line.startswith("-"))
    return Mutant(function, removed, tuple(line[1:].strip() for line in lines if line[:1] == "+"))


def outcomes(module: str) -> Mapping[str, str]:
    """What came of each mutant of `module`, by its name in the file."""
    found = json.loads((MUTATED / f"{module}.py.meta").read_text("utf-8"))["exit_code_by_key"]
    return {key.rpartition(".")[2]: _OUTCOMES.get(code, "killed") for key, code in found.items()}


def survivors(module: str) -> Iterator[Mutant]:
    path = MUTATED / f"{module}.py"
    lines = path.read_text("utf-8").split("\n")
    spans = json.loads(path.with_name(f"{path.name}.spans").read_text("utf-8"))["spans"]

    def text(name: str, plain: str) -> list[str]:
        first, last = spans[name]
        return [line.strip().replace(name, plain) for line in lines[first - 1 : last]]

    for name, outcome in outcomes(module).items():
        if outcome == "survives":
            mangled = name.partition("__mutmut_")[0]
            function = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
            plain = function.rpartition(".")[2]
            original = text(f"{mangled}__mutmut_orig", plain)
            changed = [*unified_diff(original, text(name, plain), n=0)][2:]
            yield _mutant(f"{module}.{function}", *changed)


def table(page: str) -> dict[str, tuple[int, ...]]:
    """The numbers of each module: of all its mutants, and of those of each outcome."""
    (lines,) = _NUMBERS.findall(page)
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines())
    return {module: tuple(map(int, found)) for module, *found in rows if module != _ALL}


def numbers(module: str) -> tuple[int, ...]:
    each = Counter(outcomes(module).values())
    if each["untried"]:
        sys.exit(f"{each['untried']} mutants of {module} were not tried")
    return each.total(), each["refused"], each["killed"], each["survives"]


def with_numbers(page: str, modules: Iterable[str]) -> str:
    """`page` with the numbers of this run for `modules`."""
    rows = table(page) | {module: numbers(module) for module in modules}
    total = map(sum, zip(*rows.values(), strict=True))
    ordered = [*((module, *rows[module]) for module in sorted(rows)), (_ALL, *total)]
    lines = (" | ".join(map(str, row)) for row in ordered)
    return _NUMBERS.sub(lambda _: _HEAD + "".join(f"| {line} |\n" for line in lines), page)


def main(arguments: list[str]) -> None:
    modules = [name for name in arguments if name != "--write"]
    modules = modules or sorted(path.name.split(".")[0] for path in MUTATED.glob("*.meta"))
    page = PAGE.read_text("utf-8")
    current = with_numbers(page, modules)
    if "--write" in arguments:
        PAGE.write_text(current, "utf-8")
    known = {each for each in explained(page) if each.function.split(".")[0] in modules}
    alive = {each for module in modules for each in survivors(module)}
    for mutant in sorted(alive - known):
        print(f"survives, and is not explained:\n{mutant}\n")
    for mutant in sorted(known - alive):
        print(f"is explained, but does not survive:\n{mutant}\n")
    if alive != known:
        sys.exit(f"{PAGE.name} does not agree with this run")
    if current != page and "--write" not in arguments:
        sys.exit(f"{PAGE.name} has the numbers of another run: call this with --write")


if __name__ == "__main__":
    main(sys.argv[1:])
