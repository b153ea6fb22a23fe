"""Check the syntax of a rule and build the `FusionRule` from it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from re import ASCII, fullmatch

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Kind
from collage_dsl.language.messages.findings import Findings, count, did_you_mean, listed, there_are
from collage_dsl.language.reasoning.calls import refuse
from collage_dsl.language.reasoning.effects import check_growing, check_joining, check_size
from collage_dsl.language.reasoning.fitting import check_fit
from collage_dsl.language.reasoning.growth import check_rule_growth
from collage_dsl.language.reasoning.repeated import check_repeated
from collage_dsl.language.resolve.arguments import bind, string, whole_number
from collage_dsl.language.resolve.compilers import check_compiler
from collage_dsl.language.resolve.limits import LIMITS, check_limits
from collage_dsl.language.resolve.scope import PatternScope
from collage_dsl.language.resolve.substitution import substituted
from collage_dsl.language.resolve.variants import variant_names
from collage_dsl.language.syntax import aliases, ast
from collage_dsl.rules import (
    TVM_DEFAULT,
    CombineByPrimitives,
    Constants,
    DFPattern,
    FusionRule,
    Horizontal,
    Host,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Primitive,
    Tagged,
    TupleArgs,
    TupleProjections,
    Union,
    Vertical,
)
from collage_dsl.rules.horizontal import REACH
from collage_dsl.rules.predicate import BACKEND, Predicate
from collage_dsl.rules.regions import Preference
from collage_dsl.rules.vertical import USUAL_DEPTH
from collage_dsl.source import Span

MAX_DEPTH = 200
"""How deep rules may be nested, because walking them is recursive. A use of a name counts twice."""

MAX_SIZE = 10_000
"""How many parts a rule may have with its names written out; reused names make it grow fast."""

KINDS: Mapping[str, Kind] = {str(kind): kind for kind in Kind}

PRIMITIVES: Mapping[str, tuple[Primitive, ...]] = {
    "tvm_default": TVM_DEFAULT,
    "injective_branches": (InjectiveBranches(),),
    "tuple_args": (TupleArgs(),),
    "tuple_projections": (TupleProjections(),),
    "constants": (Constants(),),
    "join_anything": (JoinAnything(),),
}

_SUPPORTS = r"[A-Za-z_][\w-]*\.supports"
"""A question to a backend: its name as in `compiler`, then `.supports`."""


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule (None if it is wrong), its nesting depth, and the number of its parts."""

    rule: FusionRule | None
    depth: int
    size: int


class RuleScope:
    """The patterns and rules of a file by name. A rule is checked when it is first used."""

    def __init__(
        self,
        patterns: Mapping[str, Pattern | None],
        rules: Mapping[str, ast.Rule],
        broken: frozenset[str],
        findings: Findings,
        values: PatternScope,
    ) -> None:
        self.patterns = patterns
        self.rules = rules
        self.broken = broken
        self.findings = findings
        self.values = values
        """The operators and predicates of the file."""
        self.refused: Mapping[str, str] = {}
        self.checked: dict[str, CheckedRule] = {}
        self.labels: dict[str, Span] = {}
        """Where the labels of composites are first written."""
        self.variants: dict[str, Span] = {}
        """Where the names of variants are first written."""
        self.used: set[str] = set()
        self.active: list[str] = []

    def rule(self, written: ast.Expression) -> FusionRule | None:
        """The rule of `written`; None after reporting what is wrong in it."""
        return _Expression(self).rule(written, 0).rule

    def is_rule(self, name: str) -> bool:
        """Whether `name` is a rule that the file defines or imports."""
        return name in self.rules or name in self.checked

    def named(self, name: ast.Name, depth: int) -> CheckedRule:
        """The rule of that name."""
        self.used.add(name.text)
        if name.text in self.active:
            self.recursion(name)
            return CheckedRule(None, 0, 0)
        if name.text not in self.checked:
            self.active.append(name.text)
            written = self.rules[name.text].value
            self.checked[name.text] = _Expression(self).rule(written, depth)
            self.active.pop()
        return self.checked[name.text]

    def recursion(self, name: ast.Name) -> None:
        cycle = self.active[self.active.index(name.text) :]
        message = f"rule `{name.text}` uses itself"
        if len(cycle) > 1:
            message += f", through {listed(cycle[1:], 'and')}"
        note = Note("the rule", self.rules[name.text].name.span)
        self.findings.error("E0210", name.span, message, notes=(note,))


def _of_table(name: str, known: Iterable[str]) -> str:
    """A hint for the prefix of an import that is written in place of a rule of it."""
    of_prefix = [each for each in known if each.startswith(f"{name}.")]
    return f"write `{of_prefix[0]}`" if of_prefix else ""


def _is_none(written: ast.Expression) -> bool:
    return isinstance(written, ast.Name) and written.text == "none"


def _ours(name: str) -> str:
    return aliases.RULES.get(name, name)


class _Expression:
    """Checks an expression that stands for a rule."""

    def __init__(self, scope: RuleScope) -> None:
        self.scope = scope
        self.findings = scope.findings
        self.functions: Mapping[str, Callable[[ast.Application], FusionRule | None]] = {
            "op_call_by_kind": self.op_call_by_kind,
            "dfpattern": self.dfpattern,
            "op_predicate": self.op_predicate,
            "host": self.host,
            "composite": self.composite,
            "union": self.union,
            "combine_by_primitives": self.combine_by_primitives,
            "horizontal": self.horizontal,
            "vertical": self.vertical,
            "only_valid": self.only_valid,
            "only_variants": self.only_variants,
            "max_coalesce": self.max_coalesce,
            "primitive": self.whole,
        }
        self.depth = 0
        self.deepest = 0
        self.size = 0
        self.is_too_large = False

    def rule(self, written: ast.Expression, depth: int) -> CheckedRule:
        """The rule of `written`; `depth` is the depth of the rules around it."""
        self.depth = depth
        self.deepest = depth
        found = self.part(written)
        return CheckedRule(found, self.deepest - depth, self.size)

    def part(self, written: ast.Expression) -> FusionRule | None:
        self.size += 1
        self.depth += 1
        self.deepest = max(self.depth, self.deepest)
        found: FusionRule | None = None
        if self.depth > MAX_DEPTH:
            self.too_deep(written.span)
        elif isinstance(written, ast.Name):
            found = self.name(written)
        elif not isinstance(written, ast.Application):
            hint = (
                "rules stand side by side: `union(a, b)`"
                if isinstance(written, ast.List | ast.Operation)
                else ""
            )
            self.findings.error("E0404", written.span, "a rule is needed here", hint)
        elif self.size > MAX_SIZE:
            self.too_large(written.span)
        elif written.function.text in self.scope.rules:
            found = self.applied(written)
        elif (function := _ours(written.function.text)) not in self.functions:
            self.unknown_function(written.function)
        else:
            found = self.functions[function](written)
        self.depth -= 1
        return found

    def applied(self, written: ast.Application) -> FusionRule | None:
        """The body of a rule with parameters, with the arguments put in."""
        scope, name = self.scope, written.function
        rule = scope.rules[name.text]
        if not rule.parameters:
            self.unknown_function(name)
            return None
        scope.used.add(name.text)
        if name.text in scope.active:
            scope.recursion(name)
            return None
        wanted = len(rule.parameters)
        if len(written.arguments) != wanted:
            message = f"`{name.text}` takes {count(wanted, 'argument')}"
            message += f", not {len(written.arguments)}"
            wanted_names = ", ".join(parameter.text for parameter in rule.parameters)
            self.findings.error(
                "E0403", written.span, message, f"write `{name.text}({wanted_names})`"
            )
            return None
        bound = bind(written, self.findings, takes=(wanted, wanted))
        if bound is None:
            return None
        names = (parameter.text for parameter in rule.parameters)
        body = substituted(rule.value, dict(zip(names, bound[0], strict=True)))
        scope.active.append(name.text)
        found = self.part(body)
        scope.active.pop()
        return found

    def too_large(self, span: Span) -> None:
        if not self.is_too_large:
            message = f"written out, this rule has more than {MAX_SIZE} parts"
            self.findings.error("E0406", span, message)
        self.is_too_large = True

    def too_deep(self, span: Span) -> None:
        message = f"rules are nested more than {MAX_DEPTH} deep here"
        self.findings.error("E0105", span, message)

    def name(self, name: ast.Name) -> FusionRule | None:
        scope = self.scope
        if name.text in scope.rules and scope.rules[name.text].parameters:
            message = f"`{name.text}` has parameters"
            self.findings.error("E0404", name.span, message, f"write `{name.text}(…)`")
            return None
        if scope.is_rule(name.text):
            checked = scope.named(name, self.depth + 1)
            found = checked.rule
            self.deepest = max(self.deepest, self.depth + 1 + checked.depth)
            self.size += checked.size
            if self.deepest > MAX_DEPTH and found:
                self.too_deep(name.span)
                return None
            if self.size > MAX_SIZE and found:
                message = f"written out, this rule has more than {MAX_SIZE} parts"
                self.findings.error("E0406", name.span, message)
                self.size = 0
                return None
            return found
        if name.text in scope.patterns:
            message = f"`{name.text}` is a pattern, and a rule is needed here"
            self.findings.error("E0209", name.span, message, f"write `dfpattern({name.text})`")
        elif _ours(name.text) in self.functions:
            message = f"`{name.text}` needs parentheses"
            self.findings.error("E0404", name.span, message, f"write `{name.text}(…)`")
        elif name.text not in scope.broken:
            hint = did_you_mean(name.text, scope.rules) or _of_table(name.text, scope.checked)
            self.findings.error("E0206", name.span, f"no rule is named `{name.text}`", hint)
        return None

    def unknown_function(self, name: ast.Name) -> None:
        hint = did_you_mean(name.text, self.functions)
        if not hint and self.scope.is_rule(name.text):
            hint = f"a rule is used by its name alone: `{name.text}`"
        self.findings.error("E0401", name.span, f"unknown rule `{name.text}`", hint)

    # The rules.

    def op_call_by_kind(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(0, None))
        if bound is None:
            return None
        kinds = [self.kind(argument) for argument in bound[0]]
        found = tuple(kind for kind in kinds if kind is not None)
        if len(found) < len(kinds):
            return None
        return OpCallByKind(found) if found else OpCallByKind()

    def dfpattern(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(1, 1))
        if bound is None:
            return None
        name = bound[0][0]
        scope = self.scope
        if not isinstance(name, ast.Name):
            text = name.value if isinstance(name, ast.Literal) else None
            hint = f"write `dfpattern({text})`" if text in scope.patterns else ""
            self.findings.error("E0404", name.span, "the name of a pattern is needed here", hint)
        elif name.text in scope.patterns:
            scope.used.add(name.text)
            pattern = scope.patterns[name.text]
            return None if pattern is None else DFPattern(pattern)
        elif scope.is_rule(name.text):
            message = f"`{name.text}` is a rule, and a pattern is needed here"
            self.findings.error("E0209", name.span, message, f"write `{name.text}` alone")
        elif name.text in scope.refused:
            refuse(name, scope.refused, self.findings)
        elif name.text not in scope.broken:
            hint = did_you_mean(name.text, scope.patterns) or there_are(scope.patterns)
            self.findings.error("E0206", name.span, f"no pattern is named `{name.text}`", hint)
        return None

    def op_predicate(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(1, 1), keywords=("ops",))
        if bound is None:
            return None
        (name,), named = bound
        predicate = self.predicate(name)
        ops = self.operators(named["ops"]) if "ops" in named else ()
        return None if predicate is None or ops is None else OpPredicate(predicate, ops)

    def host(self, written: ast.Application) -> FusionRule | None:
        return None if bind(written, self.findings, takes=(0, 0)) is None else Host()

    def composite(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(2, 2))
        if bound is None:
            return None
        first, second = bound[0]
        if isinstance(second, ast.Literal) and not isinstance(first, ast.Literal):
            message = "the label comes first"
            self.findings.error("E0404", second.span, message, 'write `composite("label", rule)`')
            return None
        label = string(first, "the label", self.findings)
        if label:
            self.scope.labels.setdefault(label, first.span)
        rule = self.part(second)
        return Tagged(label, rule) if label and rule else None

    def union(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(1, None))
        if bound is None:
            return None
        found = []
        for argument in bound[0]:
            if rule := self.part(argument):
                found.append(rule)
        if len(found) < len(bound[0]):
            return None
        spans = (argument.span for argument in bound[0])
        check_repeated(tuple(zip(found, spans, strict=True)), self.findings)
        return Union(tuple(found))

    def combine_by_primitives(self, written: ast.Application) -> FusionRule | None:
        keywords = ("using", "max_depth", "max_nodes", "max_splits")
        bound = bind(written, self.findings, takes=(1, 1), keywords=keywords)
        if bound is None:
            return None
        (argument,), named = bound
        if "using" not in named:
            message = f"`{written.function.text}` needs to know what to combine by"
            self.findings.error("E0403", written.span, message, "add `using: tvm_default`")
        errors = self.findings.errors
        rule = self.part(argument)
        using = self.primitives(named["using"]) if "using" in named else None
        bounds = {
            name: whole_number(named[name], f"`{name}`", self.findings)
            for name in ("max_depth", "max_nodes")
            if name in named
        }
        if "max_splits" in named:
            bounds["max_splits"] = self.number(named["max_splits"], "max_splits", (0, 2))
        if rule is None or using is None or self.findings.errors > errors:
            return None
        found = CombineByPrimitives(rule, using, **bounds)
        check_rule_growth(found, written.function.span, self.findings)
        check_joining(found, written.function.span, self.findings)
        return found

    def horizontal(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(1, 1), keywords=("max",))
        if bound is None:
            return None
        rule = self.part(bound[0][0])
        if "max" not in bound[1]:
            return None if rule is None else Horizontal(rule)
        most = self.number(bound[1]["max"], "max", (2, REACH + 1))
        return None if rule is None or most is None else Horizontal(rule, most)

    def vertical(self, written: ast.Application) -> FusionRule | None:
        keywords = ("prologue", "epilogue", "max_depth")
        bound = bind(written, self.findings, takes=(1, 1), keywords=keywords)
        if bound is None:
            return None
        errors = self.findings.errors
        (argument,), named = bound
        rule = self.part(argument)
        said: dict[str, Kind | None] = {
            side: None if _is_none(value) else self.kind(value)
            for side, value in named.items()
            if side != "max_depth"
        }
        max_depth: int | None = USUAL_DEPTH
        if "max_depth" in named:
            max_depth = whole_number(named["max_depth"], "`max_depth`", self.findings)
        if rule is None or max_depth is None or self.findings.errors > errors:
            return None
        before, after = (said.get(side, Kind.BROADCAST) for side in ("prologue", "epilogue"))
        found = Vertical(rule, before, after, max_depth)
        check_growing(found, written.function.span, self.findings)
        return found

    def only_valid(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(1, 1), keywords=LIMITS)
        if bound is None:
            return None
        errors = self.findings.errors
        rule = self.part(bound[0][0])
        limits = check_limits(bound[1].items(), self.findings)
        if rule is None or self.findings.errors > errors:
            return None
        places = {name: bound[1].get(name, written.function).span for name in LIMITS}
        check_fit(rule, limits, places, self.findings)
        check_size(rule, limits, places, self.findings)
        return OnlyValid(rule, limits)

    def only_variants(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(2, 2))
        if bound is None:
            return None
        inner, names = bound[0]
        rule = self.part(inner)
        if not isinstance(names, ast.List):
            message, hint = "the variants are a list of names", "write `[direct]`"
            self.findings.error("E0404", names.span, message, hint)
            return None
        variants = variant_names(names, is_native=False, findings=self.findings)
        for name in names.items:
            if isinstance(name, ast.Name):
                self.scope.variants.setdefault(name.text, name.span)
        return OnlyVariants(rule, variants) if rule and variants else None

    def max_coalesce(self, written: ast.Application) -> FusionRule | None:
        bound = bind(written, self.findings, takes=(1, 1), keywords=("prefer",))
        if bound is None:
            return None
        rule = self.part(bound[0][0])
        match bound[1].get("prefer"):
            case None:
                prefer: Preference = "largest"
            case ast.Name("largest" | "first" as said):
                prefer = said
            case other:
                self.findings.error("E0404", other.span, "`prefer` is `largest` or `first`")
                return None
        return MaxCoalesce(rule, prefer) if rule else None

    def whole(self, written: ast.Application) -> FusionRule | None:
        """The argument of `primitive(rule)`, which every target implies anyway."""
        bound = bind(written, self.findings, takes=(1, 1))
        return self.part(bound[0][0]) if bound else None

    # Numbers, predicates, operators, kinds and primitives.

    def number(self, written: ast.Expression, name: str, between: tuple[int, int]) -> int | None:
        """A whole number in the range `between`, both ends included; None after reporting."""
        least, most = between
        match written:
            case ast.Literal(bool()):
                pass
            case ast.Literal(int() as value) if least <= value <= most:
                return value
        message = f"`{name}` is a whole number from {least} to {most}"
        self.findings.error("E0404", written.span, message)
        return None

    def predicate(self, written: ast.Expression) -> Predicate | None:
        """A declared predicate by its name, or that of a backend: `"NAME.supports"`."""
        scope = self.scope
        match written:
            case ast.Literal(str() as text, span) if fullmatch(_SUPPORTS, text, ASCII):
                check_compiler(text.removesuffix(".supports"), span, self.findings)
                return Predicate(text, ("call",), BACKEND + text.removesuffix(".supports"))
            case ast.Literal(str()):
                message = "a backend is asked what it supports"
                hint = 'write "NAME.supports", or the name of a predicate without quotes'
                self.findings.error("E0404", written.span, message, hint)
            case ast.Name(name) if name in scope.values.predicates:
                scope.used.add(name)
                predicate = scope.values.predicates[name]
                if predicate is None or len(predicate.parameters) == 1:
                    return predicate
                wanted = count(len(predicate.parameters), "value")
                message = f"`{name}` is asked about {wanted}, here about the result of a call"
                hint = "declare it with one parameter"
                self.findings.error("E0404", written.span, message, hint)
            case ast.Name(name):
                if name not in scope.broken:
                    hint = did_you_mean(name, scope.values.predicates)
                    message = f"no predicate is named `{name}`"
                    self.findings.error("E0206", written.span, message, hint)
            case _:
                message = "the name of a predicate is needed here"
                self.findings.error("E0404", written.span, message)
        return None

    def operators(self, written: ast.Expression) -> tuple[str, ...] | None:
        """The names of the operators in a list of operators and classes, each once."""
        if not isinstance(written, ast.List) or not written.items:
            message = "`ops` is a list of operators and classes"
            hint = f"write `[{written.span.text}]`" if isinstance(written, ast.Name) else ""
            self.findings.error("E0404", written.span, message, hint)
            return None
        found: dict[str, None] = {}
        is_known = True
        for item in written.items:
            part = self.scope.values.member(ast.Argument(None, item))
            is_known &= part is not None
            found |= dict.fromkeys(operator.name for operator in part or ())
        return tuple(found) if is_known else None

    def kind(self, written: ast.Expression) -> Kind | None:
        if not isinstance(written, ast.Name):
            self.findings.error("E0404", written.span, "the name of a kind is needed here")
            return None
        found = KINDS.get(written.text)
        if found is None:
            hint = did_you_mean(written.text, KINDS) or f"the kinds are {listed(KINDS, 'and')}"
            self.findings.error("E0401", written.span, f"unknown kind `{written.text}`", hint)
        return found

    def primitives(self, written: ast.Expression) -> tuple[Primitive, ...] | None:
        match written:
            case ast.Name("tvm_default"):
                return TVM_DEFAULT
            case ast.List(items):
                found = [self.primitive(item) for item in items]
                if any(primitives is None for primitives in found):
                    return None
                return tuple(one for primitives in found if primitives for one in primitives)
        message = "`using` is `tvm_default` or a list of primitives"
        is_one = isinstance(written, ast.Name | ast.Application)
        hint = f"write `[{written.span.text}]`" if is_one else ""
        self.findings.error("E0404", written.span, message, hint)
        return None

    def primitive(self, written: ast.Expression) -> tuple[Primitive, ...] | None:
        match written:
            case ast.Name(name) if name in PRIMITIVES:
                return PRIMITIVES[name]
            case ast.Name(name) | ast.Application(ast.Name(name)) if name != "kind":
                hint = did_you_mean(name, (*PRIMITIVES, "kind"))
                if not hint:
                    hint = f"the primitives are {listed((*PRIMITIVES, 'kind'), 'and')}"
                self.findings.error("E0401", written.span, f"unknown primitive `{name}`", hint)
                return None
            case ast.Application(ast.Name("kind")):
                return self.kind_pair(written)
        hint = "write `kind(anchor -> broadcast)`"
        self.findings.error("E0404", written.span, "a primitive is needed here", hint)
        return None

    def kind_pair(self, written: ast.Application) -> tuple[Primitive, ...] | None:
        match written.arguments:
            case (ast.Argument(None, ast.Arrow(left, right)),):
                upstream, downstream = self.kind(left), self.kind(right)
                if upstream is None or downstream is None:
                    return None
                return (KindPair(upstream, downstream),)
        message = "`kind` takes two kinds with an arrow between"
        self.findings.error("E0404", written.span, message, "write `kind(anchor -> broadcast)`")
        return None
