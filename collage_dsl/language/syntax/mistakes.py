"""
What other languages write where ours cannot be read on, and what to write instead.

Each `mistakes_in_*.py` is a table of such mistakes in one part of a file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from collage_dsl.graph.types import dtype_names, long_dtype
from collage_dsl.language.messages.hints import Hint

NEAR = 300
"""How many characters before and after the place are examined, so that a hint stays cheap."""

MOST_SHOWN = 80
"""A longer part of the text is shown as `…` in a hint."""

BEGINS = r"(?<![\w.])"
"""Before the first letter of a name, which may have dots."""

NAME = r"[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+"
INNER = r"(?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+"
"""What may stand in parentheses."""
ARGUMENTS = rf"\({INNER}\)"
NUMBER = r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?"
CALL = rf"{NAME}\??\s*{ARGUMENTS}(?:\s*\[[^\[\]]*+\])?"
VALUE = rf"(?:{CALL}|{NAME}|{NUMBER})"
"""A name, a number or a call, also with attributes and with calls as operands."""

HAS = rf"has\(\s*{NAME}\s*\)"
ARROW = r"(?:->|=>|\|>)"
"""What other languages write between a value and a name, or between a value and what takes it."""

REST = r"(?P<rest>[^;{}]*[^;{}\s])"
"""What is left of the statement."""
DTYPE = rf"(?:{'|'.join((*dtype_names(), *map(str, map(long_dtype, dtype_names()))))})\b"


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where a text cannot be read on: the statement ends in `before` so far, and goes on with
    `after`. `accepted` are the kinds of tokens that may follow `before`.
    """

    inside: tuple[str, ...]
    """The words before the open braces, the outermost first: `("target", "limits")`."""
    before: str
    after: str
    accepted: frozenset[str]
    around: str
    """The text of the block up to the end of the statement: it has the names in use."""

    @property
    def is_expression(self) -> bool:
        """Whether a condition, a rule or the value of a setting is being read."""
        if not self.before or self.inside[-1:] == ("graph",):
            return False
        if self.inside == ("pattern",):
            is_attribute = self.before.count("[") > self.before.count("]")
            return is_attribute or self.before.startswith("where")
        return bool(self.inside) or not self.before.startswith("pattern")

    def free_name(self) -> str:
        """A name for a result that is not in use so far, and that nothing defines later."""
        for name in ("y", "z", "t", "result", "value"):
            is_used = re.search(rf"\b{name}\b", self.around)
            if not is_used and not re.search(rf"\b{name}\s*[=:]", self.after):
                return name
        return "…"


@dataclass(frozen=True, slots=True)
class Advice:
    """
    A hint about the place where reading stopped. Its new text replaces `back` characters before
    the place and `ahead` characters after it.
    """

    hint: str
    back: int = 0
    ahead: int = 0


_WRITE = re.compile(
    r"(?:a list stands in brackets: )?(?:write|compare with) `([^`…]+)`(?:, then `([^`…]+)`)?"
    r"(?:, (?:without|in small letters).*| for any size| for the result)?"
)
"""A help that says exactly what to write."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """
    A mistake is recognized by patterns of the text before and after the place where reading
    stopped. `help` names their groups: "write `{name}`". `{free}` is a name that is not in use.

    What to write replaces the text from the group `start` of `before` on; without that group, from
    the group with which the new text begins, or all of `before`.
    """

    before: str
    after: str
    help: str
    exact: bool = True
    """Whether the file can be read on, once what `help` says to write is written there."""
    new: str = ""
    """What to write, where `help` has more words around it."""
    instead_of: str = ""
    """The kind of token that could stand at the place. The mistake is found only there."""

    def advice_at(self, place: Place) -> Advice | None:
        """What to write instead; None if this is another mistake."""
        if self.instead_of and self.instead_of not in place.accepted:
            return None
        after = _compiled(self.after).match(place.after)
        if after is None:
            return None
        before = _compiled(rf"(?:{self.before})\Z").search(place.before)
        if before is None:
            return None
        groups = {**before.groupdict(), **after.groupdict(), "free": place.free_name()}
        words = self.help.format_map({name: shown(text or "") for name, text in groups.items()})
        template = self.template()
        if not template or ("{free}" in self.help and groups["free"] == "…"):
            return Advice(words)
        new = template.format_map({name: text or "" for name, text in groups.items()})
        if not new:
            return None
        end = after.end()
        if new[-1].isalpha() and re.match(r"\w", place.after[end:]):
            new += " "
        if new.endswith((";", "}")) and (semicolon := re.compile(r"\s*;").match(place.after, end)):
            end = semicolon.end()
        return Advice(Hint(words, new), len(place.before) - _start(before, template), end)

    def template(self) -> str:
        """What to write, with the names of groups in braces; empty if `help` leaves that open."""
        said = _WRITE.fullmatch(self.help) if self.exact else None
        return self.new or " ".join(part for part in (said.groups() if said else ()) if part)


Table = tuple[Mistake, ...]


def signs(before: str, help_of: Mapping[str, str], after: str) -> Table:
    """A mistake for each sign in `help_of`, in that order, between `before` and `after`."""
    return tuple(Mistake(before, _sign(sign) + after, said) for sign, said in help_of.items())


def calls(operators: Mapping[str, str], operands: str) -> dict[str, str]:
    """For each sign, the help to write a call of its operator."""
    return {sign: f"write `{operator}({operands})`" for sign, operator in operators.items()}


def _sign(sign: str) -> str:
    return rf"{sign}\b" if sign.isalpha() else re.escape(sign)


def _start(before: re.Match[str], template: str) -> int:
    """Where the text that `template` replaces begins in the text before the place."""
    names = ["start", *re.findall(r"^\{(\w+)\}", template)]
    return before.start(next((name for name in names if name in before.re.groupindex), 0))


def shown(text: str) -> str:
    """`text` on one line."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_SHOWN else "…"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)
