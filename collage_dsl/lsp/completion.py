"""Propose words to complete at the cursor."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from collage_dsl.graph.operators import operators
from collage_dsl.graph.target_kinds import target_kinds
from collage_dsl.graph.variants import NATIVE_VARIANTS
from collage_dsl.language.resolve.measuring import MEASURES
from collage_dsl.language.resolve.pattern_tables import table_names
from collage_dsl.language.resolve.tuning import TUNES
from collage_dsl.language.syntax import aliases
from collage_dsl.language.syntax.grammar import spellings
from collage_dsl.language.syntax.words import SETTINGS
from collage_dsl.lsp.classes import operators_called
from collage_dsl.lsp.context import ITEMS, Bracket, Context, context
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.names import Definition, External
from collage_dsl.lsp.tables import sorts as table_sorts
from collage_dsl.lsp.vocabulary import attribute_type, meaning, signature, words
from collage_dsl.reading import real_path
from collage_dsl.resources import folder as shipped_folder
from collage_dsl.rules.predicate import PATTERN_TABLE
from collage_dsl.rules.rule_functions import (
    KIND_PAIR,
    LIMIT_NAMES,
    LIMITS,
    RULES,
    Argument,
    Choice,
    RuleFunction,
    Sort,
    WholeNumber,
)
from collage_dsl.source import Span

_ARGUMENTS = {
    **{name: function.keywords for name, function in RULES.items()},
    "matches": ("at", "nodes"),
    "why_not": ("at",),
}

_A_RULE = Argument("rule", Sort.RULE)

_LAYOUTS = {
    "NCHW": ("NCHW", "NHWC"),
    "NCW": ("NCW", "NWC"),
    "NCDHW": ("NCDHW", "NDHWC"),
    "OIHW": ("OIHW", "HWIO", "OHWI"),
}
"""Usual layouts for an attribute with one of these defaults."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A word, its sort, and details to show; `text` is what to insert."""

    label: str
    sort: str
    detail: str = ""
    documentation: str = ""
    text: str = ""


def completions(document: Document, offset: int, files: Files) -> tuple[Span, list[Completion]]:
    """
    The span to replace (the word before `offset`), and the words that could replace it.

    Names are those of the last text that was parsed, so that one who types need not wait.
    """
    here = context(document.text, offset)
    maker = _Completer(files.last_parsed(document), here, files)
    if here.is_comment:
        return Span(document.source, offset, offset), []
    if here.is_string:
        start = document.text.rfind('"', 0, offset) + 1
        return Span(document.source, start, offset), list(maker.strings())
    found = {each.label: each for each in reversed(list(maker.all()))}
    at = Span(document.source, offset - len(here.prefix), offset)
    return at, sorted(found.values(), key=lambda each: each.label)


class _Completer:
    def __init__(self, document: Document, here: Context, files: Files) -> None:
        self.document = document
        self.here = here
        self.files = files

    def all(self) -> Iterator[Completion]:
        match self.here.blocks:
            case []:
                yield from self.item()
            case ["pattern", *_]:
                yield from self.pattern()
            case ["target"]:
                yield from self.target()
            case ["target", "measure"]:
                if not self.here.words:
                    yield from _some("measure", MEASURES)
            case ["target", "tune"]:
                if not self.here.words:
                    yield from _some("tune", TUNES)
            case ["target", _]:
                yield from self.limits()
            case ["test"]:
                yield from self.test()
            case ["test", "graph"]:
                yield from self.graph()
            case ["test", "costs"]:
                yield from _known(self.document.names.targets.values())

    # Items.

    def item(self) -> Iterator[Completion]:
        here = self.here
        match here.first:
            case "":
                yield from _keywords(ITEMS)
            case "import" if here.bracket:
                yield from self.importable()
            case "import" if here.last == "import":
                yield from _keywords(("pattern_table",))
            case "import" if here.last.startswith('"'):
                yield from _keywords(("as", "only"))
            case "let":
                yield from self.of_class()
            case "rule" if "=" in here.words:
                yield from self.rule()
            case "pattern" if here.last == ":":
                yield from _group("sort")
                yield from _keywords(("not",))
            case "pattern" if here.last == "not" or self.calls("not"):
                yield from _group("sort")
                yield from _group("kind")
                yield from self.defined("class")
                yield from _operators()
            case "target" if len(here.words) == 2:
                yield from _keywords(("on",))
            case "target" if here.last == "on":
                yield from (Completion(kind, "target kind") for kind in target_kinds())
            case "target" if here.bracket and here.bracket.argument == "":
                options = target_kinds().get("".join(here.bracket.heads), ())
                names = (each.replace("-", "_") for each in options)
                yield from (Completion(name, "argument", text=f"{name}: ") for name in names)
            case "extern":
                yield from _keywords(("predicate",) if here.last == "extern" else ("from",))
            case "pin" | "forbid":
                yield from self.placement()

    def placement(self) -> Iterator[Completion]:
        here = self.here
        if here.bracket:
            if self.calls("op"):
                yield from self.defined("class")
                yield from _operators()
                yield from _group("kind")
        elif here.last in ("pin", "forbid"):
            yield from (Completion(word, "keyword") for word in ("op", "name"))
        elif here.last == ")":
            yield from _keywords(("to" if here.first == "pin" else "on",))
        elif here.last in ("to", "on"):
            yield from _known(self.document.names.targets.values())
        else:
            yield from _keywords(("because",))

    def importable(self) -> Iterator[Completion]:
        """The names that the file in an import defines."""
        path = next((word for word in self.here.words if word.startswith('"')), "").strip('"')
        if "pattern_table" in self.here.words:
            yield from _of_table(PATTERN_TABLE + path)
            return
        found = self.files.definition(self.document, External(path))
        if found:
            yield from _known(each for each in found[0].names.definitions.values() if not each.of)

    def of_class(self) -> Iterator[Completion]:
        if self.here.bracket:
            yield from self.defined("class")
            yield from _operators()
            yield from _group("kind")
        elif self.here.last == "=":
            yield Completion("one_of", "rule", "", meaning("rule", "one_of"))

    # Patterns.

    def pattern(self) -> Iterator[Completion]:
        here = self.here
        match here.first:
            case "":
                yield from _keywords(("where", "yield", "taps", "anchor"))
            case "where":
                yield from self.condition()
            case "taps":
                yield from _some("taps", ("none", "allowed"))
            case "yield" | "anchor":
                yield from self.local()
            case _ if heads := self.heads():
                yield from self.attributes(self.operators_called(heads))
            case _ if "=" in here.words:
                yield from self.called()

    def called(self) -> Iterator[Completion]:
        """Words for an operand: something to call, or a value."""
        yield from self.local()
        yield from self.defined("class", "pattern")
        yield from _operators()
        yield from _group("kind")
        yield from _keywords(("each", "repeat", "path"))
        if self.here.last == ")":
            yield from _group("modifier")
        if "path" in self.here.words and "from" not in self.here.words:
            yield from _keywords(("from",))
        if "~" in self.here.words:
            yield from _keywords(("within",))

    def local(self) -> Iterator[Completion]:
        for name in self.here.names:
            yield Completion(name, "value")

    def attributes_of_value(self) -> Iterator[Completion]:
        """`k.strides` for the value `k` before the dot that is being written."""
        value, dot, _ = self.here.prefix.partition(".")
        known = [operators()[n] for n in self.operators_called(self.here.calls.get(value, ()))]
        for name in known[0].attrs if dot and known else ():
            if all(name in operator.attrs for operator in known):
                yield Completion(f"{value}.{name}", "attribute")

    def condition(self) -> Iterator[Completion]:
        yield from self.local()
        yield from self.attributes_of_value()
        yield from _group("function")
        yield from _group("dtype")
        yield from self.defined("predicate")
        yield from _keywords(("and", "or", "not", "in", "else", "true", "false"))

    def attributes(self, called: tuple[str, ...]) -> Iterator[Completion]:
        """The attributes that all operators `called` have."""
        known = [operators()[name].attrs for name in called]
        for name in known[0] if known else ():
            if all(name in attrs for attrs in known):
                detail = attribute_type(called[0], name)
                yield Completion(name, "attribute", detail)
        if any(operators()[name].may_be_none for name in called):
            yield from _keywords(("none",))
        if self.here.last in ("==", "!="):
            yield from (Completion(f'"{each.label}"', each.sort) for each in self.strings())
        yield from self.condition()

    def heads(self) -> tuple[str, ...]:
        """The names called before the brackets with conditions at the cursor, outside lists."""
        for bracket in reversed(self.here.brackets):
            if bracket.sign != "[":
                break
            if bracket.heads:
                return bracket.heads
        return ()

    def operators_called(self, heads: tuple[str, ...]) -> tuple[str, ...]:
        """The operators that `heads` name: operators, and classes of them."""
        return operators_called(self.document.file, heads)

    # Rules and targets.

    def rule(self) -> Iterator[Completion]:
        """Words for the argument at the cursor, and for the names of arguments."""
        function, argument = self.argument()
        bracket = self.here.bracket
        if bracket and bracket.sign == "(" and self.is_own_rule("".join(bracket.heads)):
            yield from self.defined("pattern")
            yield from self.values(_A_RULE)
            return
        if self.here.bracket and self.here.bracket.heads[-1:] == (KIND_PAIR,):
            yield from _group("kind")
        elif function is None:
            yield from self.values(_A_RULE)
        else:
            if argument is not None:
                yield from self.values(argument)
            if argument is None or not argument.is_named:
                yield from _some("argument", function.keywords, after=": ")

    def is_own_rule(self, name: str) -> bool:
        found = self.document.names.definitions.get(name)
        return found is not None and found.sort == "rule"

    def argument(self) -> tuple[RuleFunction | None, Argument | None]:
        """The innermost function of a rule around the cursor, and its argument at the cursor."""
        for bracket in reversed(self.here.brackets):
            function = _rule_function(bracket)
            if function is not None:
                return function, function.argument(bracket.number, bracket.argument)
        return None, None

    def values(self, argument: Argument) -> Iterator[Completion]:
        """Words for a value of `argument`."""
        match argument.sort:
            case Sort.RULE:
                yield from _group("rule", leave_out=("one_of",))
                yield from self.defined("rule")
                yield from self.parameters()
            case Sort.KIND:
                yield from _group("kind")
            case Sort.KIND_OR_NONE:
                yield from _group("kind")
                yield from _keywords(("none",))
            case Sort.PATTERN:
                yield from self.defined("pattern")
            case Sort.PREDICATE:
                yield from self.defined("predicate")
            case Sort.OPERATORS:
                yield from self.defined("class")
                yield from _operators()
            case Sort.PRIMITIVES:
                yield from _group("primitive")
            case Sort.VARIANTS:
                yield from _some("variant", NATIVE_VARIANTS)
            case Sort.TAPS:
                yield from _some("taps", ("allowed", "none"))
            case Sort.TRUTH:
                yield from _keywords(("true", "false"))
            case WholeNumber(may_be_any=True):
                yield from _some("taps", ("any",))
            case Choice(words):
                yield from _some("choice", words)
            case Sort.LABEL | Sort.LIMITS | WholeNumber():
                pass
            case _:
                assert_never(argument.sort)

    def calls(self, function: str) -> bool:
        """Whether the cursor is in the arguments of `function`."""
        return any(function in bracket.heads for bracket in self.here.brackets)

    def parameters(self) -> Iterator[Completion]:
        """The parameters of the rule that is being written."""
        words = self.here.words
        if self.here.first == "rule" and words[2:3] == ["("]:
            header = words[3 : words.index("=")] if "=" in words else []
            yield from (Completion(word, "parameter") for word in header if word.isidentifier())

    def target(self) -> Iterator[Completion]:
        match self.here.first:
            case "":
                yield from _some("setting", SETTINGS)
            case "rules":
                yield from self.rule()
            case "variants" if self.here.bracket:
                yield from _some("variant", NATIVE_VARIANTS)
            case "variants":
                yield from _keywords(("not",))
            case "after" if not self.here.bracket:
                yield from _some("rule", ("max_coalesce",))

    def limits(self) -> Iterator[Completion]:
        match self.here.first:
            case "":
                yield from _some("limit", LIMIT_NAMES)
            case name if limit := next((each for each in LIMITS if each.name == name), None):
                if limit.sort is not Sort.TRUTH:  # `largest_first;` stands alone
                    yield from self.values(limit)

    # Tests.

    def test(self) -> Iterator[Completion]:
        if not self.here.words:
            yield from _keywords(("graph", "model", "costs", "expect"))
        elif self.here.first == "expect":
            yield from self.expectation()

    def expectation(self) -> Iterator[Completion]:
        bracket = self.here.bracket
        if bracket is None:
            yield from _group("question")
            yield from _keywords(("not", "and"))
            yield from _known(self.document.names.targets.values())
            return
        asked = next((each for each in reversed(self.here.brackets) if each.heads), bracket)
        question = "".join(asked.heads)
        if _rule_function(asked) or self.is_own_rule(question):
            yield from self.rule()
        elif bracket.sign == "[" or bracket.argument == "at" or question == "target_of":
            yield from self.local()
        elif not bracket.argument:
            if bracket.number == 0:
                yield from self.asked_about(question)
            yield from _some("argument", _ARGUMENTS.get(question, ()), after=": ")

    def asked_about(self, question: str) -> Iterator[Completion]:
        """What the first argument of `question` may be."""
        if question != "kernels":
            yield from self.defined("pattern")
        if question in ("candidates", "proposes"):
            yield from self.values(_A_RULE)
        if question in ("candidates", "proposes", "kernels"):
            yield from _known(self.document.names.targets.values())

    def graph(self) -> Iterator[Completion]:
        here = self.here
        bracket = here.bracket
        if here.first == "":
            yield from _keywords(("return",))
        elif here.first == "return":
            yield from self.local()
        elif here.last == ":" or here.last == "const":
            yield from _group("dtype")
        elif bracket and bracket.sign == "[" and bracket.words[-1:] == ["="]:
            for name in bracket.heads:
                yield from _values_of_attribute(name, bracket.words[0])
        elif bracket and bracket.sign == "[":
            for name in bracket.heads:
                attrs = operators()[name].attrs if name in operators() else {}
                for attr in attrs:
                    detail = attribute_type(name, attr)
                    yield Completion(attr, "attribute", detail, text=f"{attr} = ")
        elif bracket:
            yield from self.local()
        elif here.last == "=":
            yield from _operators()
            yield from _keywords(("const",))

    # Strings and names of the file.

    def strings(self) -> Iterator[Completion]:
        here = self.here
        if here.first == "import":
            if "pattern_table" in here.words:
                yield from (Completion(name, "pattern table") for name in table_names())
            else:
                yield from (Completion(path, "file") for path in self.paths())
            return
        bracket = here.bracket
        if bracket is None or bracket.sign != "[":
            return
        # In `data_layout in ["NCHW", "` the inner bracket is the list.
        for each in here.brackets:
            for name in reversed(each.words):
                values = [v for head in each.heads for v in _strings_of(head, name)]
                if values:
                    yield from (Completion(v, "text") for v in dict.fromkeys(values))
                    return

    def paths(self) -> Iterator[str]:
        """The paths of files that can be imported, as written in an import."""
        folder = self.document.folder
        places = [*([folder] if folder else []), *self.files.search(self.document)]
        for place in dict.fromkeys([*places, shipped_folder("specs")]):
            for path in sorted(place.glob("*.collage")) + sorted(place.glob("*/*.collage")):
                if real_path(path) != self.document.path:
                    yield path.relative_to(place).as_posix()

    def defined(self, *sorts: str) -> Iterator[Completion]:
        """The names of these sorts that the file defines or imports."""
        for definition in self.document.names.definitions.values():
            if definition.of is None:
                if definition.sort in sorts:
                    yield _named(definition.name, definition)
            elif definition.sort == "import":
                yield from self.of_prefix(definition, sorts)
            elif sort := table_sorts(definition.of.path).get(definition.of.name):
                if sort in sorts:
                    yield Completion(definition.name, sort, sort)
            else:
                origin = self.files.origin(self.document, definition)
                if origin and origin[1].sort in sorts:
                    yield _named(definition.name, origin[1])

    def of_prefix(self, prefix: Definition, sorts: tuple[str, ...]) -> Iterator[Completion]:
        """The names of a file imported with a prefix: `act.relu6`."""
        assert prefix.of is not None
        in_table = _of_table(prefix.of.path, f"{prefix.name}.")
        yield from (completion for completion in in_table if completion.sort in sorts)
        found = self.files.definition(self.document, prefix.of)
        for each in found[0].names.definitions.values() if found else ():
            if each.of is None and each.sort in sorts:
                yield _named(f"{prefix.name}.{each.name}", each)


def _rule_function(bracket: Bracket) -> RuleFunction | None:
    head = bracket.heads[-1] if bracket.heads else ""
    return RULES.get(aliases.RULES.get(head, head)) if bracket.sign == "(" else None


def _of_table(path: str, before: str = "") -> Iterator[Completion]:
    """The names of a pattern table, each with `before` in front."""
    for name, sort in table_sorts(path).items():
        yield Completion(f"{before}{name}", sort, sort)


def _known(definitions: Iterable[Definition]) -> Iterator[Completion]:
    yield from (_named(definition.name, definition) for definition in definitions)


def _named(name: str, definition: Definition) -> Completion:
    return Completion(name, definition.sort, definition.sort)


def _operators() -> Iterator[Completion]:
    for name in words("operator"):
        yield Completion(name, "operator", signature(name))


def _group(group: str, leave_out: tuple[str, ...] = ()) -> Iterator[Completion]:
    yield from _some(group, (word for word in words(group) if word not in leave_out))


def _some(group: str, chosen: Iterable[str], after: str = "") -> Iterator[Completion]:
    for word in chosen:
        text = f"{word}{after}" if after else ""
        yield Completion(word, group, "", meaning(group, word), text)


def _keywords(chosen: Iterable[str]) -> Iterator[Completion]:
    """The words in `chosen` that the grammar has."""
    known = set(spellings("file").values())
    for word in chosen:
        if word in known:
            yield Completion(word, "keyword", "", meaning("keyword", word))


def _values_of_attribute(operator: str, attribute: str) -> Iterator[Completion]:
    """The words that an attribute may be in a graph."""
    found = operators().get(operator)
    kind = found.attrs.get(attribute, "") if found else ""
    if kind == "bool":
        yield from _keywords(("true", "false"))
    elif kind == "dtype":
        yield from _group("dtype")


def _strings_of(operator: str, attribute: str) -> tuple[str, ...]:
    """The usual values of an attribute that is a string."""
    found = operators().get(operator)
    default = found.defaults.get(attribute) if found else None
    if found is None or found.attrs.get(attribute) != "str" or not isinstance(default, str):
        return ()
    return _LAYOUTS.get(default, (default,)) if re.fullmatch("[A-Z]+", default) else (default,)
