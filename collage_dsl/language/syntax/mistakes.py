"""
What other languages write where ours cannot be read on, and what to write instead.

Each `mistakes_in_*.py` is a table of such mistakes in one part of a file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from collage_dsl.graph.types import dtype_names, long_dtype

NEAR = 300
"""How many characters before and after the place are examined, so that a hint stays cheap."""

MOST_SHOWN = 80
"""A longer part of the text is shown as `…` in a hint."""

NAME = r"[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+"
_INNER = r"(?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+"
ARGUMENTS = rf"\({_INNER}\)"
NUMBER = r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?"
CALL = rf"{NAME}\??\s*{ARGUMENTS}(?:\s*\[[^\[\]]*+\])?"
VALUE = rf"(?:{CALL}|{NAME}|{NUMBER})"
"""A name, a number or a call, also with attributes and with calls as operands."""

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
        """A name for a result that is not in use."""
        names = ("y", "z", "result", "value")
        return next((n for n in names if not re.search(rf"\b{n}\b", self.around)), "…")


@dataclass(frozen=True, slots=True)
class Mistake:
    """
    A mistake is recognized by patterns of the text before and after the place where reading
    stopped. `help` names their groups: "write `{name}`". `{free}` is a name that is not in use.
    """

    before: str
    after: str
    help: str

    def help_at(self, place: Place) -> str:
        """What to write instead; empty if this is another mistake."""
        after = _compiled(self.after).match(place.after)
        if after is None:
            return ""
        before = _compiled(rf"(?:{self.before})\Z").search(place.before)
        if before is None:
            return ""
        groups = {**before.groupdict(), **after.groupdict()}
        shown = {name: _shown(text or "") for name, text in groups.items()}
        return self.help.format_map({**shown, "free": place.free_name()})


Table = tuple[Mistake, ...]


def signs(before: str, help_of: Mapping[str, str], after: str) -> Table:
    """A mistake for each sign in `help_of`, in that order, between `before` and `after`."""
    return tuple(Mistake(before, _sign(sign) + after, said) for sign, said in help_of.items())


def calls(operators: Mapping[str, str], operands: str) -> dict[str, str]:
    """For each sign, the help to write a call of its operator."""
    return {sign: f"write `{operator}({operands})`" for sign, operator in operators.items()}


def _sign(sign: str) -> str:
    return rf"{sign}\b" if sign.isalpha() else re.escape(sign)


def _shown(text: str) -> str:
    """`text` on one line."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_SHOWN else "…"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)
