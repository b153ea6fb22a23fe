"""Check `test` blocks: a graph or model, and expectations of patterns, rules and plans on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from collage_dsl.graph import Graph, Toolchain
from collage_dsl.language.graphs.checked_types import check_types
from collage_dsl.language.graphs.graph_text import build_graph
from collage_dsl.language.messages.findings import Findings, listed, there_are
from collage_dsl.language.messages.hints import Hint, did_you_mean, write
from collage_dsl.language.reasoning.findings.list_items import check_twice
from collage_dsl.language.resolve.answers import Asked
from collage_dsl.language.resolve.arguments import bind, whole_number
from collage_dsl.language.resolve.expectations import check_expectations
from collage_dsl.language.resolve.other_sorts import OPERATOR, is_other_sort
from collage_dsl.language.resolve.prices import prices_of
from collage_dsl.language.resolve.questions import (
    Candidates,
    Expectation,
    Kernels,
    Matches,
    Operator,
    Proposes,
    Question,
    TargetOf,
    WhyNot,
)
from collage_dsl.language.resolve.rules import RuleScope
from collage_dsl.language.syntax import ast, graph_ast
from collage_dsl.rules import DFPattern, FusionSpec, Pattern
from collage_dsl.rules.condition import OPPOSITE
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class SpecTest:
    """
    A test: its graph, with `Values` in its constants, or its ONNX file; its expectations; and costs
    (s) by target and operator.
    """

    name: str
    graph: Graph | None
    model: str
    costs: Mapping[str, Mapping[str, float]]
    expectations: tuple[Expectation, ...]
    span: Span


def check_test(
    written: ast.Test,
    scope: RuleScope,
    specs: Mapping[str, FusionSpec],
    targets: frozenset[str],
    findings: Findings,
) -> SpecTest | None:
    """
    The test of `written`; None after reporting what is wrong in it. `targets` that are not in
    `specs` have errors that are reported elsewhere.
    """
    return _TestChecker(written, scope, specs, targets, findings).run()


_FUNCTIONS = ("matches", "why_not", "candidates", "proposes", "kernels", "target_of")
_HINT = "there are " + listed(_FUNCTIONS, "and")


class _TestChecker:
    def __init__(
        self,
        written: ast.Test,
        scope: RuleScope,
        specs: Mapping[str, FusionSpec],
        targets: frozenset[str],
        findings: Findings,
    ) -> None:
        self.written = written
        self.scope = scope
        self.specs = specs
        self.targets = targets
        self.findings = findings
        self.graph: Graph | None = None

    def run(self) -> SpecTest | None:
        errors = self.findings.errors
        model = self.model()
        costs = self.costs()
        expects = [s for s in self.written.statements if isinstance(s, ast.Expect)]
        if not expects:
            message = "this test has no `expect`"
            hint = "write `expect matches(…) == 1;`"
            self.findings.error("E0701", self.written.name_span, message, hint)
        if self.findings.errors > errors:
            return None
        found = [each for e in expects for each in self.expectations(e.expectation, True)]
        whole = [each for each in found if each is not None]
        if len(whole) < len(found):
            return None
        asked = Asked(self.graph, {name: self.specs.get(name) for name in costs})
        check_expectations(whole, asked, self.findings)
        span = self.written.name_span
        return SpecTest(self.written.name, self.graph, model, costs, tuple(whole), span)

    def model(self) -> str:
        """The path of the model; empty if the test has a graph."""
        given = [s for s in self.written.statements if isinstance(s, graph_ast.Graph | ast.Model)]
        if len(given) != 1:
            message = "this test has no graph" if not given else "a test can have only one graph"
            span = given[1].span if given else self.written.name_span
            hint = "write another test for the second"
            hint = hint if given else 'write `graph { … }` or `model "file.onnx";`'
            self.findings.error("E0701", span, message, hint)
            return ""
        if isinstance(given[0], ast.Model):
            return given[0].path
        if self.has_other_sort(given[0]):
            return ""
        self.graph = build_graph(given[0], self.written.name, self.findings)
        if self.graph is not None:
            check_types(given[0], self.graph, self.findings)
        return ""

    def costs(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for statement in self.written.statements:
            for table in statement.targets if isinstance(statement, ast.Costs) else ():
                self.is_target(table.target)
                is_of_graph = self.graph is not None
                prices = prices_of(table.prices, self.findings, is_of_graph=is_of_graph)
                if table.target.text in found or not prices:
                    message = "a target needs one table of costs, with at least one price"
                    self.findings.error("E0502", table.target.span, message)
                found[table.target.text] = prices
        return found

    def is_target(self, name: ast.Name) -> bool:
        if name.text not in self.targets:
            hint = did_you_mean(name.text, self.targets) or there_are(sorted(self.targets))
            self.findings.error("E0206", name.span, f"no target is named `{name.text}`", hint)
        return name.text in self.targets

    # Expectations.

    def expectations(self, written: ast.Expression, holds: bool) -> "list[Expectation | None]":
        """The expectations in `written`, part by part; their opposites unless `holds`."""
        match written:
            case ast.Operation("not", None, right):
                return self.expectations(right, not holds)
            case ast.Operation("and", left, right) if holds and left:
                return self.expectations(left, True) + self.expectations(right, True)
            case ast.Operation("or", left, right) if not holds and left:
                return self.expectations(left, False) + self.expectations(right, False)
            case ast.Operation(operator, left, right) if left and operator in OPPOSITE:
                return [self.compared(cast(Operator, operator), left, right, holds, written.span)]
            case ast.Application():
                return [self.alone(written, holds)]
            case ast.Name(name) if name in _FUNCTIONS:
                self.question(written)  # which lacks its parentheses
                return [None]
        message, hint = "an expectation needs a question and a comparison", _HINT
        if isinstance(written, ast.Operation) and written.operator in ("and", "or"):
            message = "this does not say which of the expectations holds"
            hint = "write the one that holds on this graph"
        self.findings.error("E0702", written.span, message, hint)
        return [None]

    def compared(
        self,
        operator: Operator,
        left: ast.Expression,
        right: ast.Expression,
        holds: bool,
        span: Span,
    ) -> Expectation | None:
        question = self.question(left)
        if question is None:
            return None
        value = self.value(question, operator, right)
        operator = operator if holds else OPPOSITE[operator]
        return None if value is None else Expectation(question, operator, value, span)

    def value(
        self, question: Question, operator: Operator, written: ast.Expression
    ) -> int | str | None:
        wanted = "a whole number"
        match question, written:
            case (Matches() | Candidates() | Kernels(), ast.Literal(bool())):
                pass
            case (Matches() | Candidates() | Kernels(), ast.Literal(int() as number)):
                return number
            case (WhyNot(), ast.Literal(str() as text)) if operator in ("==", "!="):
                return text
            case (TargetOf(), ast.Name(name)) if operator in ("==", "!="):
                return name if self.is_target(written) else None
            case (WhyNot(), _):
                wanted = "a text, with `==` or `!=`"
            case (TargetOf(), _):
                wanted = "a target, with `==` or `!=`"
            case (Proposes(), _):
                message = "`proposes` holds or not, so it is not compared"
                hint: str = "write it alone, or after `not`"
                self.findings.error("E0702", written.span, message, hint)
                return None
        message = f"the answer can be compared only with {wanted}"
        is_truth = isinstance(written, ast.Literal) and isinstance(written.value, bool)
        hint = "write the question alone, or after `not`" if is_truth else ""
        if isinstance(question, TargetOf) and isinstance(written, ast.Literal):
            name = str(written.value)
            hint = write(name, ", without quotes") if name.isidentifier() else ""
        self.findings.error("E0702", written.span, message, hint)
        return None

    def alone(self, written: ast.Application, holds: bool) -> Expectation | None:
        question = self.question(written)
        match question:
            case None:
                return None
            case WhyNot() | TargetOf():
                message = f"`{written.function.text}` needs a comparison"
                self.findings.error("E0702", written.span, message, "write `== …`")
                return None
        return Expectation(question, ">" if holds else "<=", 0, written.span)

    # Questions.

    def question(self, written: ast.Expression) -> Question | None:
        if isinstance(written, ast.Name) and written.text in _FUNCTIONS:
            hint = write("kernels()") if written.text == "kernels" else f"write `{written.text}(…)`"
            message = f"`{written.text}` needs parentheses"
            self.findings.error("E0702", written.span, message, hint)
            return None
        if not isinstance(written, ast.Application):
            self.findings.error("E0702", written.span, "a question must be on the left", _HINT)
            return None
        match written.function.text:
            case "matches":
                return self.matches(written)
            case "why_not":
                return self.why_not(written)
            case "candidates":
                return self.candidates(written)
            case "proposes":
                return self.proposes(written)
            case "kernels" | "target_of":
                return self.of_plan(written)
        function = written.function
        hint = did_you_mean(function.text, _FUNCTIONS) or _HINT
        self.findings.error("E0702", function.span, f"unknown question `{function.text}`", hint)
        return None

    def matches(self, written: ast.Application) -> Question | None:
        bound = bind(written, self.findings, (1, 1), ("at", "nodes"))
        if bound is None:
            return None
        errors = self.findings.errors
        pattern = self.pattern(bound[0][0])
        at = self.node(bound[1]["at"]) if "at" in bound[1] else None
        nodes = None
        if "nodes" in bound[1]:
            nodes = whole_number(bound[1]["nodes"], "`nodes`", self.findings)
        if pattern is None or self.findings.errors > errors:
            return None
        return Matches(pattern, at, nodes)

    def why_not(self, written: ast.Application) -> Question | None:
        bound = bind(written, self.findings, (1, 1), ("at",))
        if bound is None:
            return None
        pattern = self.pattern(bound[0][0])
        if "at" not in bound[1]:
            message = "`why_not` needs a node"
            self.findings.error("E0403", written.span, message, "add `at: y`")
            return None
        at = self.node(bound[1]["at"])
        return WhyNot(pattern, at) if pattern and at else None

    def candidates(self, written: ast.Application) -> Question | None:
        bound = bind(written, self.findings, (1, 1))
        spec = self.spec(bound[0][0]) if bound else None
        return Candidates(spec) if spec else None

    def proposes(self, written: ast.Application) -> Question | None:
        bound = bind(written, self.findings, takes=(2, 2))
        if bound is None:
            return None
        spec, nodes = self.spec(bound[0][0]), bound[0][1]
        if not isinstance(nodes, ast.List):
            message = "the nodes must be a list: `[c, d, y]`"
            self.findings.error("E0404", nodes.span, message)
            return None
        if not nodes.items:
            message = "a candidate has at least one node"
            hint = "to expect no candidate, write `candidates(…) == 0`"
            self.findings.error("E0404", nodes.span, message, hint)
            return None
        names = [self.node(node) for node in nodes.items]
        named = zip(names, nodes.items, strict=True)
        check_twice([(name, item.span) for name, item in named if name], self.findings)
        found = frozenset(name for name in names if name)
        return Proposes(spec, found) if spec and all(names) else None

    def of_plan(self, written: ast.Application) -> Question | None:
        is_count = written.function.text == "kernels"
        bound = bind(written, self.findings, takes=(0, 1) if is_count else (1, 1))
        if not any(isinstance(s, ast.Costs) for s in self.written.statements):
            message = "this test has no `costs`, so there is no plan"
            asked = [a.value.text for a in written.arguments if isinstance(a.value, ast.Name)]
            names = [name for name in asked if name in self.targets] or sorted(self.targets)
            hint = "define a target, and give its kernels costs"
            if names:
                hint = f'write `costs {{ {names[0]} {{ "*": 10us; }} }}`'
            self.findings.error("E0703", written.span, message, hint)
            return None
        if bound is None:
            return None
        if not is_count:
            node = self.node(bound[0][0])
            return TargetOf(node) if node else None
        if not bound[0]:
            return Kernels()
        target = bound[0][0]
        if not isinstance(target, ast.Name):
            self.findings.error("E0404", target.span, "the name of a target is needed here")
            return None
        return Kernels(target.text) if self.is_target(target) else None

    # Names.

    def has_other_sort(self, written: graph_ast.Graph) -> bool:
        """Whether something of the file is called in a graph, which is reported."""
        nodes = [each for each in written.statements if isinstance(each, graph_ast.Node)]
        calls = [node.value for node in nodes if isinstance(node.value, graph_ast.GraphCall)]
        defined = self.scope.values.defined
        found = [is_other_sort(call.operator, OPERATOR, defined, self.findings) for call in calls]
        return any(found)

    def pattern(self, written: ast.Expression) -> Pattern | None:
        if isinstance(written, ast.Name) and written.text in self.targets:
            message = f"`{written.text}` is a target, but a pattern is needed here"
            hint = f"a target has candidates: write `candidates({written.text})`"
            self.findings.error("E0209", written.span, message, hint)
            return None
        if isinstance(written, ast.Name) and self.scope.is_rule(written.text):
            message = f"`{written.text}` is a rule, but a pattern is needed here"
            hint = f"a rule has candidates: write `candidates({written.text})`"
            self.findings.error("E0209", written.span, message, hint)
            return None
        rule = self.scope.rule(_dfpattern(written))
        return rule.pattern if isinstance(rule, DFPattern) else None

    def spec(self, written: ast.Expression) -> FusionSpec | None:
        """A target; or a pattern or rule as a spec with the default limits."""
        if isinstance(written, ast.Name):
            if written.text in self.targets:
                return self.specs.get(written.text)
            if written.text in self.scope.patterns:
                written = _dfpattern(written)
        rule = self.scope.rule(written)
        return None if rule is None else FusionSpec(Toolchain("test"), rule)

    def node(self, written: ast.Expression) -> str | None:
        match written:
            case ast.Name(name) | ast.Literal(str() as name):
                if self.graph is None:
                    return name
                known = [node.name for node in self.graph.nodes]
                if name in known:
                    return name
                hint = did_you_mean(name, known)
                if isinstance(written, ast.Literal):  # the quotes stay
                    hint = Hint(hint, hint.new and f'"{hint.new}"')
                hint = hint or Hint(there_are(known))
                message = f"the graph has no node `{name}`"
                self.findings.error("E0206", written.span, message, hint)
                return None
        message = "the name of a node is needed here, in quotes if it is not a word"
        self.findings.error("E0404", written.span, message)
        return None


def _dfpattern(written: ast.Expression) -> ast.Application:
    function = ast.Name("dfpattern", written.span)
    return ast.Application(function, (ast.Argument(None, written),), written.span)
