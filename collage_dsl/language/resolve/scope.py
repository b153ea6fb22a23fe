"""Look up the patterns and operator classes of a file; each is checked on its first use."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.graph.types import KINDS
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.messages.hints import Hint, did_you_mean, write
from collage_dsl.language.reasoning.conclusions.exclusion import Effort
from collage_dsl.language.reasoning.findings.list_items import check_names_twice
from collage_dsl.language.reasoning.findings.sorts_of_values import Sorts
from collage_dsl.language.reasoning.operators.calls import find_operator, refuse
from collage_dsl.language.resolve.other_sorts import OPERATOR, is_other_sort
from collage_dsl.language.syntax import ast
from collage_dsl.rules import Pattern
from collage_dsl.rules.predicate import Predicate

MAX_DEPTH = 100
"""How deep operators and patterns may be nested, because matching them is recursive."""

MAX_FIELDS = 100
"""How many fields a tuple of any length may have."""

MAX_SIZE = 10_000
"""How many calls a pattern may have, including those of the patterns that it calls."""


Member = Operator | Kind
"""What a class consists of: operators, and all operators of a kind."""


def distinct(parts: Iterable[Iterable[Member]]) -> tuple[Member, ...]:
    """The members of several classes, each once."""
    named = {each.name: each for part in parts for each in part}
    return tuple(named.values())


@dataclass(slots=True)
class PatternScope:
    """
    Patterns and operator classes by name, and the results of checking them.

    A name in `broken` has a definition with a syntax error, so its uses are not reported.
    """

    patterns: Mapping[str, ast.Pattern]
    classes: Mapping[str, ast.Let]
    broken: frozenset[str]
    findings: Findings
    check: Callable[[ast.Pattern], Pattern | None]
    checked: dict[str, Pattern | None] = field(default_factory=dict)
    known: dict[str, tuple[Member, ...] | None] = field(default_factory=dict)
    depths: dict[int, int] = field(default_factory=dict)
    """Depths of the patterns in `checked` and of those they call, by `id`; `sizes` likewise."""
    sizes: dict[int, int] = field(default_factory=dict)
    sorts: dict[int, Sorts] = field(default_factory=dict)
    """What the values of patterns are, by `id` of the pattern."""
    active: list[str] = field(default_factory=list)
    predicates: dict[str, Predicate | None] = field(default_factory=dict)
    """The declared and imported predicates; None for one whose declaration is wrong."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Imported patterns that cannot be used, with the reason."""
    defined: Mapping[str, str] = field(default_factory=dict)
    """What the names that the file defines or imports are, in words."""
    uses: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a definition (empty for a placement) and a name that it uses."""
    effort: Effort = field(default_factory=Effort)

    def is_pattern(self, name: str) -> bool:
        """Whether `name` is a pattern that the file defines or imports."""
        return name in self.patterns or name in self.checked

    def pattern(self, name: ast.Name) -> Pattern | None:
        """The pattern called `name`; None after reporting why it cannot be used."""
        self.note_use(name)
        if name.text in self.active:
            self.recursion(name, self.patterns[name.text].name)
            return None
        if name.text not in self.checked:
            if len(self.active) >= MAX_DEPTH:
                message = f"more than {MAX_DEPTH} patterns call each other here"
                self.findings.error("E0105", name.span, message)
                return None
            self.active.append(name.text)
            self.checked[name.text] = self.check(self.patterns[name.text])
            self.active.pop()
        return self.checked[name.text]

    def class_of(self, name: ast.Name, values: Container[str] = ()) -> tuple[Member, ...] | None:
        """
        The operator called `name`, the kind, or the members of the class of that name.

        None after reporting that there are none. A definition in the file comes before a kind.
        `values` are the names of the values of a pattern, which are no operators.
        """
        if name.text in self.broken:
            return None
        if name.text in self.refused:
            refuse(name, self.refused, self.findings)
            return None
        if name.text not in self.classes and name.text not in self.known:
            if name.text in KINDS:
                return (KINDS[name.text],)
            if is_other_sort(name, OPERATOR, self.defined, self.findings):
                return None
            if name.text in values and name.text not in operators():
                message = f"`{name.text}` is a value of this pattern, not an operator"
                hint = "operators get a name above the pattern: "
                hint += f"`let {name.text} = one_of(nn.relu, nn.gelu);`"
                self.findings.error("E0201", name.span, message, hint)
                return None
            others = chain(self.classes, self.patterns, self.known, self.checked, KINDS)
            found = find_operator(name, self.findings, tuple(others))
            return None if found is None else (found,)
        self.note_use(name)
        if name.text in self.active:
            self.recursion(name, self.classes[name.text].name)
            return None
        if name.text not in self.known:
            if len(self.active) >= MAX_DEPTH:
                message = f"more than {MAX_DEPTH} classes use each other here"
                self.findings.error("E0105", name.span, message)
                return None
            self.active.append(name.text)
            self.known[name.text] = self.members(self.classes[name.text].value)
            self.active.pop()
        return self.known[name.text]

    def members(self, written: ast.Expression) -> tuple[Member, ...] | None:
        """The operators and kinds in `one_of(nn.relu, broadcast)`, each once."""
        match written:
            case ast.Application(ast.Name("one_of"), arguments) if arguments:
                parts = [self.member(argument) for argument in arguments]
                if any(part is None for part in parts):
                    return None
                check_names_twice((argument.value for argument in arguments), self.findings)
                return distinct(part or () for part in parts)
            case ast.Application(ast.Name(word) as function, _) if word != "one_of":
                if meant := did_you_mean(word, ("one_of",)):
                    message = f"unknown function `{word}`"
                    self.findings.error("E0401", function.span, message, meant)
                    return None
        message = "a class of operators is needed here"
        self.findings.error("E0404", written.span, message, _class_meant(written))
        return None

    def operators(self, argument: ast.Argument) -> tuple[Operator, ...] | None:
        """The operators that an argument names, where no kind can stand; None after a report."""
        found = self.member(argument)
        kind = next((each for each in found or () if isinstance(each, Kind)), None)
        if kind is not None:
            message = f"`{kind}` is a kind, but operators are needed here"
            self.findings.error("E0404", argument.value.span, message)
            return None
        return tuple(each for each in found if isinstance(each, Operator)) if found else None

    def member(self, argument: ast.Argument) -> tuple[Member, ...] | None:
        value = argument.value
        if argument.name is None and isinstance(value, ast.Name):
            if not self.is_pattern(value.text):
                return self.class_of(value)
            message = f"`{value.text}` is a pattern, but an operator is needed here"
            hint = "name operators, or a class of operators"
            self.findings.error("E0209", value.span, message, hint)
            return None
        hint = ""
        if isinstance(value, ast.List) and value.items:
            names = ", ".join(item.span.text for item in value.items)
            hint = write(names, ", without brackets")
        if isinstance(value, ast.Literal) and value.value in operators():
            hint = write(str(value.value), ", without quotes")
        message = "the name of an operator is needed here"
        self.findings.error("E0404", value.span, message, hint)
        return None

    def recursion(self, name: ast.Name, defined: ast.Name) -> None:
        cycle = self.active[self.active.index(name.text) :]
        message = f"`{name.text}` uses itself"
        if len(cycle) > 1:
            message += f", through {listed(cycle[1:], 'and')}"
        note = Note("the definition", defined.span)
        hint = "write `repeat[1..6] act(x)` for a chain" if self.is_pattern(name.text) else ""
        self.findings.error("E0210", name.span, message, hint, (note,))

    def note_use(self, name: ast.Name) -> None:
        self.uses.add((self.active[-1] if self.active else "", name.text))


def _class_meant(written: ast.Expression) -> Hint:
    """What to write in place of `written`, which is not a class of operators."""
    match written:
        case ast.Literal(int() | float() as number) if not isinstance(number, bool):
            return Hint("a number has no name: write it where it is used")
        case ast.Name(name) if name in operators():
            return write(f"one_of({name})")
        case ast.List(items) if items and all(isinstance(item, ast.Name) for item in items):
            return write(f"one_of({', '.join(item.span.text for item in items)})")
    return Hint("write `one_of(nn.relu, nn.gelu)`")
