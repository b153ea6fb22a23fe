"""
Find the names of a file.

Nothing is checked, so a file with errors has answers too. An unknown construct is walked part by
part, so that names in new constructs of the language are found.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from collage_dsl.graph.types import long_dtype
from collage_dsl.language.syntax import aliases, ast, graph_ast
from collage_dsl.lsp.classes import operators_called
from collage_dsl.lsp.names import Definition, External, Names, Scope, Use, What, Word
from collage_dsl.lsp.tables import import_path
from collage_dsl.lsp.vocabulary import has_meaning
from collage_dsl.rules.rule_functions import RULES, Sort
from collage_dsl.source import Source, Span

_WORDS: Mapping[object, str] = {
    Sort.KIND: "kind",
    Sort.KIND_OR_NONE: "kind",
    Sort.PRIMITIVES: "primitive",
    Sort.TAPS: "taps",
}
"""The groups of words that arguments of a sort consist of."""


def names_of(source: Source, file: ast.File) -> Names:
    """The names of `file`, which is the syntax of `source`."""
    return _Walk(source, file).run()


class _Walk:
    def __init__(self, source: Source, file: ast.File) -> None:
        self.source = source
        self.file = file
        self.uses: dict[tuple[int, int], Use] = {}
        self.definitions: Scope = {}
        self.targets: Scope = {}
        self.scopes: list[tuple[Span, Scope]] = []
        self.local: Scope = {}
        self.calls: dict[str, tuple[str, ...]] = {}
        """By the names of values that are calls: the operators that are called."""

    def run(self) -> Names:
        for item in self.file.items:
            self.define(item)
        for broken in self.file.broken:
            self.define_broken(broken)
        for item in self.file.items:
            self.item(item)
            self.local = {}
        uses = sorted(self.uses.values(), key=lambda use: (use.span.start, use.span.end))
        return Names(tuple(uses), self.definitions, self.targets, tuple(self.scopes))

    # Definitions.

    def define(self, item: ast.Item) -> None:
        match item:
            case ast.Import(_, prefix, names):
                path = import_path(item)
                if prefix is not None:
                    self.add(prefix, "import", item.span, External(path))
                for each in names:
                    of = External(path, each.name.text)
                    self.add(each.visible, "imported name", item.span, of)
            case ast.Target(name):
                self.defined(self.targets, name, "target", item.span)
            case ast.Let(name, value):
                self.add(name, "class", self.statement(name, value.span))
            case ast.Rule(name, value):
                self.add(name, "rule", self.statement(name, value.span))
            case ast.Predicate(name, _, _, end):
                self.add(name, "predicate", self.statement(name, end))
            case _:
                own = getattr(item, "name", None)
                if isinstance(own, ast.Name):
                    whole = getattr(item, "span", own.span)
                    self.add(own, type(item).__name__.lower(), whole)

    def add(self, name: ast.Name, sort: str, whole: Span, of: External | None = None) -> None:
        self.defined(self.definitions, name, sort, whole, of=of)

    def defined(
        self,
        scope: Scope,
        name: ast.Name,
        sort: str,
        whole: Span,
        inside: str = "",
        of: External | None = None,
    ) -> None:
        definition = Definition(name.text, sort, name.span, whole, inside, of)
        first = scope.setdefault(name.text, definition)
        self.use(name.span, first)

    def define_broken(self, broken: ast.Broken) -> None:
        """Add the name that a statement with a syntax error would have defined."""
        words = re.match(r"(let|extern\s+predicate|pattern|rule|target)\s+", broken.span.text)
        if words is None or not broken.name:
            return
        start = broken.span.start + words.end()
        name = ast.Name(broken.name, Span(self.source, start, start + len(broken.name)))
        if words[1] == "target":
            self.defined(self.targets, name, "target", broken.span)
        else:
            sort = words[1].split()[-1]
            self.add(name, {"let": "class"}.get(sort, sort), broken.span)

    def statement(self, name: ast.Name, end: Span) -> Span:
        """The span from the keyword before `name` to the semicolon after `end`."""
        start = name.span.start
        before_name = self.source.text[max(0, start - 200) : start]
        before = re.search(r"(extern\s+)?[a-z]+\s+\Z", before_name)
        start -= len(before[0]) if before else 0
        after = re.compile(r"\s*\)*\s*;").match(self.source.text, end.end)
        return Span(self.source, start, after.end() if after else end.end)

    # Uses.

    def use(self, span: Span, what: What) -> None:
        self.uses.setdefault((span.start, span.end), Use(span, what))

    def word(self, name: ast.Name, group: str, owners: tuple[str, ...] = ()) -> bool:
        """Add a use of `name` if it is a word of `group`, and return whether it is."""
        if not has_meaning(group, name.text, owners):
            return False
        self.use(name.span, Word(group, name.text, owners))
        return True

    def name(self, name: ast.Name, *scopes: Scope) -> bool:
        """Add a use of `name` if one of `scopes` defines it, and return whether one does."""
        for scope in scopes:
            if name.text in scope:
                self.use(name.span, scope[name.text])
                return True
        prefix, _, rest = name.text.partition(".")
        found = self.definitions.get(prefix)
        if not rest or found is None or found.of is None or self.definitions not in scopes:
            return False
        middle = name.span.start + len(prefix)
        self.use(Span(self.source, name.span.start, middle), found)
        of = External(found.of.path, rest)
        self.use(Span(self.source, middle + 1, name.span.end), of)
        return True

    def callable(self, name: ast.Name) -> None:
        """Add a use of `name`, which a pattern calls."""
        if not self.name(name, self.definitions):
            self.word(name, "operator") or self.word(name, "kind")

    # Items.

    def item(self, item: ast.Item) -> None:
        match item:
            case ast.Import(_, _, names, span):
                path = import_path(item)
                self.use(span, External(path))
                for each in names:
                    if each.name is not each.visible:
                        self.use(each.name.span, External(path, each.name.text))
            case ast.Let(_, value):
                self.rule(value)
            case ast.Rule(name, value, parameters):
                whole = self.definitions[name.text].whole
                for parameter in parameters:
                    self.here(parameter, "parameter", parameter.span, name.text)
                self.scopes.append((whole, self.local))
                self.rule(value)
            case ast.Predicate(name, parameters):
                for parameter in parameters:
                    self.here(parameter, "parameter", parameter.span, name.text)
                self.scopes.append((self.definitions[name.text].whole, self.local))
            case ast.Pattern():
                self.pattern(item)
            case ast.Target():
                self.target(item)
            case ast.Test():
                self.test(item)
            case _:
                self.anything(item)

    def here(self, name: ast.Name, sort: str, whole: Span, inside: str) -> None:
        if name.text not in ("_", ".."):
            self.defined(self.local, name, sort, whole, inside)

    def anything(self, node: Any) -> None:
        """Look for names in an unknown construct."""
        for part in _parts(node):
            if isinstance(part, ast.Name):
                self.name(part, self.local, self.definitions, self.targets)
            elif isinstance(part, ast.OperatorCall):
                self.operand(part)
            else:
                self.anything(part)

    # Patterns.

    def pattern(self, pattern: ast.Pattern) -> None:
        owner = pattern.name.text
        for parameter in pattern.parameters:
            last = parameter.dims or parameter.tag or parameter.name
            whole = Span(self.source, parameter.name.span.start, last.span.end)
            self.here(parameter.name, "parameter", whole, owner)
            if isinstance(parameter.tag, ast.Name):
                self.word(parameter.tag, "sort")
            for name in parameter.tag.names if isinstance(parameter.tag, ast.Excluded) else ():
                if not self.word(name, "sort"):
                    self.callable(name)
        for parameter in pattern.parameters:
            for dim in parameter.dims.items if parameter.dims else ():
                if isinstance(dim, ast.Name):
                    self.here(dim, "dimension", dim.span, owner)
        for item in _list_items(pattern.statements):
            self.here(item, "dimension", item.span, owner)
        for statement in pattern.statements:
            if isinstance(statement, ast.Binding):
                name, value = statement.name, statement.value
                whole = Span(self.source, name.span.start, value.span.end)
                self.here(name, "value", whole, owner)
        self.calls = {
            statement.name.text: self.operators(statement.value)
            for statement in pattern.statements
            if isinstance(statement, ast.Binding)
        }
        self.broken_inside(pattern)
        self.scopes.append((pattern.span, self.local))
        for statement in pattern.statements:
            self.pattern_statement(statement)

    def broken_inside(self, pattern: ast.Pattern) -> None:
        """Add names from statements with syntax errors: `s = add?(k, ;` defines `s`."""
        for broken in self.file.broken:
            inside = pattern.span.start <= broken.span.start and broken.span.end <= pattern.span.end
            if inside and re.match(r"[\w.]+\s*=", broken.span.text):
                start = broken.span.start
                name = ast.Name(broken.name, Span(self.source, start, start + len(broken.name)))
                self.here(name, "value", broken.span, pattern.name.text)

    def pattern_statement(self, statement: Any) -> None:
        match statement:
            case ast.Binding(_, value):
                self.operand(value)
            case ast.Where(condition):
                self.condition(condition)
            case ast.Taps(value):
                self.word(value, "taps")
            case _:
                self.anything(statement)

    def operand(self, operand: Any) -> None:
        match operand:
            case ast.Name():
                self.name(operand, self.local)
            case ast.PathFrom(operators=called, origin=origin):
                for each in called:
                    if isinstance(each, ast.Name):
                        self.callable(each)
                self.operand(origin)
            case ast.OperatorCall(_, _, operands, attributes):
                for name in _called(operand):
                    self.callable(name)
                for modifier in operand.modifiers:
                    self.word(modifier, "modifier")
                for inner in operands:
                    self.operand(inner)
                owners = self.operators(operand)
                for attribute in attributes:
                    self.condition(attribute, owners)
            case ast.ListOf():
                pass  # its items are dimensions, which `pattern` has added
            case _:
                for part in _parts(operand):
                    self.operand(part)

    def operators(self, operand: ast.Operand) -> tuple[str, ...]:
        """The operators that an operand calls; for a class, its operators."""
        return operators_called(self.file, [name.text for name in _called(operand)])

    # Conditions.

    def condition(self, written: Any, owners: tuple[str, ...] = ()) -> None:
        match written:
            case ast.Name():
                if not (owners and self.word(written, "attribute", owners)):
                    self.value(written)
            case ast.Elements(of) | ast.Index(of):
                if not self.word(of, "attribute", owners):
                    self.value(of)
            case ast.Application(function, arguments):
                if not self.word(function, "function"):
                    self.name(function, self.definitions)
                for argument in arguments:
                    self.condition(argument.value)
            case _:
                for part in _parts(written):
                    self.condition(part, owners)

    def value(self, name: ast.Name) -> None:
        """
        Add a use of a dtype, a named dimension, or a value of the pattern; in `k.strides`, of `k`
        and of an attribute.
        """
        of, _, attribute = name.text.partition(".")
        if long_dtype(name.text):
            self.word(name, "dtype")
        elif attribute:
            middle = name.span.start + len(of)
            self.name(ast.Name(of, Span(self.source, name.span.start, middle)), self.local)
            at = Span(self.source, middle + 1, name.span.end)
            self.word(ast.Name(attribute, at), "attribute", self.calls.get(of, ()))
        else:
            self.name(name, self.local)

    # Rules and targets.

    def rule(self, written: Any, words: str = "") -> None:
        """Walk a rule or an argument of one, in which words of the group `words` are allowed."""
        match written:
            case ast.Name():
                is_word = words and self.word(written, words)
                if not is_word and not self.name(written, self.local, self.definitions):
                    self.word(written, "operator") or self.word(written, "kind")
            case ast.Arrow(left, right):
                self.word(left, "kind")
                self.word(right, "kind")
            case ast.Application(function, arguments):
                self.application(function, arguments, words)
            case _:
                for part in _parts(written):
                    self.rule(part, words)

    def application(
        self, function: ast.Name, arguments: tuple[ast.Argument, ...], words: str
    ) -> None:
        if not (words and self.word(function, words)):
            self.name(function, self.local, self.definitions) or self.word(function, "rule")
        known = RULES.get(aliases.RULES.get(function.text, function.text))
        for at, argument in enumerate(arguments):
            if argument.name is not None:
                self.word(argument.name, "argument", (function.text,))
            name = "" if argument.name is None else argument.name.text
            wanted = known.argument(at, name) if known else None
            if wanted and wanted.sort is Sort.VARIANTS and isinstance(argument.value, ast.List):
                self.variants(argument.value)
            else:
                self.rule(argument.value, _WORDS.get(wanted.sort, "") if wanted else "")

    def target(self, target: ast.Target) -> None:
        for setting in target.settings:
            self.word(setting.name, "setting")
            if isinstance(setting, ast.Block):
                for field in setting.fields:
                    said = setting.name.text
                    self.word(field.name, said if said in ("measure", "tune") else "limit")
                    if field.value is not None:
                        self.rule(field.value, "taps")
            elif isinstance(setting, ast.Field) and setting.name.text == "variants":
                self.variants(setting.value)
            elif isinstance(setting, ast.Field):
                self.rule(setting.value)
            else:
                self.anything(setting)

    def variants(self, written: Any) -> None:
        """Walk a list of variants, which are words of the language and never names of the file."""
        if isinstance(written, ast.Name):
            self.word(written, "variant")
            return
        for part in _parts(written):
            self.variants(part)

    # Tests.

    def test(self, test: ast.Test) -> None:
        for statement in test.statements:
            if isinstance(statement, graph_ast.Graph):
                self.graph(statement, test.name)
        self.scopes.append((test.span, self.local))
        for statement in test.statements:
            match statement:
                case graph_ast.Graph() | ast.Model():
                    pass
                case ast.Costs(tables):
                    for table in tables:
                        self.name(table.target, self.targets)
                case ast.Expect(expectation):
                    self.expectation(expectation)
                case _:
                    self.anything(statement)

    def graph(self, graph: graph_ast.Graph, test: str) -> None:
        for statement in graph.statements:
            match statement:
                case graph_ast.Input(name, type_) | graph_ast.Node(name, _, type_):
                    whole = Span(self.source, name.span.start, type_.span.end)
                    self.here(name, "node", whole, test)
        for statement in graph.statements:
            self.graph_part(statement)

    def graph_part(self, part: Any) -> None:
        match part:
            case ast.Name():
                self.name(part, self.local) or self.word(part, "dtype")
            case graph_ast.TensorType(dtype):
                self.word(dtype, "dtype")
            case graph_ast.GraphCall(operator, operands, attributes):
                self.word(operator, "operator")
                for operand in operands:
                    self.graph_part(operand)
                for name, value in attributes:
                    self.word(name, "attribute", (operator.text,))
                    if isinstance(value, ast.Name):
                        self.word(value, "dtype")
            case _:
                for inner in _parts(part):
                    self.graph_part(inner)

    def expectation(self, written: Any) -> None:
        match written:
            case ast.Name():
                self.name(written, self.local, self.targets, self.definitions)
            case ast.Literal(str() as text, span) if text in self.local:
                self.use(Span(self.source, span.start + 1, span.end - 1), self.local[text])
            case ast.Application(ast.Name() as function, arguments):
                self.question(function, arguments)
            case ast.Operation(_, left, ast.Name() as right) if _asks_for_target(left):
                self.expectation(left)
                self.name(right, self.targets)
            case ast.Operation(_, ast.Name() as left, right) if _asks_for_target(right):
                self.name(left, self.targets)
                self.expectation(right)
            case _:
                for part in _parts(written):
                    self.expectation(part)

    def question(self, function: ast.Name, arguments: tuple[ast.Argument, ...]) -> None:
        self.word(function, "question")
        for at, argument in enumerate(arguments):
            value = argument.value
            if argument.name is not None:
                self.word(argument.name, "argument", (function.text,))
            asks_for_node = argument.name is not None or function.text == "target_of"
            if at == 0 and not asks_for_node and isinstance(value, ast.Name):
                self.name(value, self.targets, self.definitions)
            elif at == 0 and not asks_for_node:
                nodes, self.local = self.local, {}  # a rule has no nodes
                self.rule(value)
                self.local = nodes
            else:
                self.expectation(value)


def _asks_for_target(written: Any) -> bool:
    return isinstance(written, ast.Application) and written.function.text == "target_of"


def _called(operand: ast.Operand) -> tuple[ast.Name, ...]:
    called = operand.operators if isinstance(operand, ast.OperatorCall) else ()
    return tuple(each for each in called if isinstance(each, ast.Name))


def _list_items(node: Any) -> Iterator[ast.Name]:
    """The names in the lists of a syntax node."""
    if isinstance(node, ast.ListOf):
        yield from (item for item in node.items if isinstance(item, ast.Name))
    else:
        for part in _parts(node):
            yield from _list_items(part)


def _parts(node: Any) -> Iterator[Any]:
    """The parts of a syntax node, including those in tuples."""
    if isinstance(node, tuple):
        yield from node
    elif is_dataclass(node) and not isinstance(node, Span | ast.Name):
        for field in fields(node):
            part = getattr(node, field.name)
            if is_dataclass(part) or isinstance(part, tuple):
                yield part
