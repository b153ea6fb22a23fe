"""Check the syntax of a pattern and build the `Pattern` of `rules` from it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.messages.advice import (
    dtype_meant,
    function_meant,
    no_attribute,
    sort_meant,
    truth_meant,
)
from collage_dsl.language.messages.findings import Findings, count, there_are
from collage_dsl.language.messages.hints import did_you_mean, write
from collage_dsl.language.reasoning.absence import can_hold
from collage_dsl.language.reasoning.attribute_values import check_values
from collage_dsl.language.reasoning.calls import check_count, check_kind_count, unknown_attribute
from collage_dsl.language.reasoning.choices import check_choices
from collage_dsl.language.reasoning.contradictions import check_contradictions, check_twice
from collage_dsl.language.reasoning.excluded import comes_from
from collage_dsl.language.reasoning.growth import check_pattern_growth
from collage_dsl.language.reasoning.operand_order import check_order
from collage_dsl.language.reasoning.pattern_shape import (
    always_there,
    calls,
    depth,
    references,
    size,
)
from collage_dsl.language.reasoning.tuples import check_tuples
from collage_dsl.language.resolve.condition_scope import AttributeScope
from collage_dsl.language.resolve.conditions import Checker
from collage_dsl.language.resolve.dimensions import ANY, OPEN, Dimensions
from collage_dsl.language.resolve.excluded import excluded_sources, named_members
from collage_dsl.language.resolve.functions import FUNCTIONS
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.language.resolve.scope import (
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_SIZE,
    Member,
    PatternScope,
    distinct,
)
from collage_dsl.language.resolve.sorts import OF_ATTRIBUTE, Sort, Typed, dtype_of
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import TOLERANCE, AttrOf, Where
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    FieldOf,
    Number,
    Operand,
    Parameter,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.rules.predicate import Predicate
from collage_dsl.rules.written import excluded_text
from collage_dsl.source import Span

_ANY_NAME = ""
"""The name of a broken statement that may define any name."""


def check_pattern(
    written: ast.Pattern, broken: frozenset[str], scope: PatternScope, findings: Findings
) -> Pattern | None:
    """
    The pattern of `written`; None after reporting what is wrong in it.

    Names in `broken` have definitions with syntax errors, so their uses are not reported.
    """
    return _PatternChecker(written, broken, scope, findings).run()


class _PatternChecker:
    def __init__(
        self,
        written: ast.Pattern,
        broken: frozenset[str],
        scope: PatternScope,
        findings: Findings,
    ) -> None:
        self.written = written
        self.broken = broken
        self.scope = scope
        self.findings = findings
        self.parameters: dict[str, Parameter] = {}
        self.bindings: dict[str, Binding] = {}
        self.computed: set[str] = set()
        """The bindings that never stand for an unchanged parameter."""
        self.defined: dict[str, Span] = {}
        self.others: list[ast.Name] = []
        self.dimensions = Dimensions()
        self.demands: list[Where] = []
        self.asked: list[tuple[Where, set[str]]] = []
        """The conditions, each with the bindings whose facts it uses without asking `has`."""
        self.asked_has: list[ast.Name] = []
        """The bindings that a condition asks `has` about."""
        self.all_names = {
            *(parameter.name.text for parameter in written.parameters),
            *(s.name.text for s in written.statements if isinstance(s, ast.Binding)),
        }

    def run(self) -> Pattern | None:
        errors = self.findings.errors
        for parameter in self.written.parameters:
            self.parameter(parameter)
        for statement in self.written.statements:
            if isinstance(statement, ast.Binding):
                self.binding(statement)
        checked = [
            (statement, self.where(statement))
            for statement in self.written.statements
            if isinstance(statement, ast.Where)
        ]
        result = self.result()
        if self.findings.errors > errors or result is None:
            return None
        if self.broken & self.all_names:
            return None
        if self.all_names - {*self.parameters, *self.bindings}:  # they use broken definitions
            return None
        pattern = Pattern(
            self.written.name.text,
            tuple(self.parameters.values()),
            tuple(self.bindings.values()),
            result.text,
            (*self.demands, *(where for _, where in checked if where)),
            tuple(name.text for name in self.others),
            self.taps(),
            self.anchor(),
            self.written.name.span,
        )
        if self.check_depth(pattern):
            self.check_use(result)
            check_tuples(pattern, self.written, self.scope.sorts, self.findings)
        if self.findings.errors == errors:
            effort = self.scope.effort
            check_contradictions(pattern, self.written, self.demands, self.findings, effort)
            if self.findings.errors == errors:
                check_choices(pattern, result.span, self.demands, self.findings, effort)
            check_pattern_growth(pattern, self.written.name.span, self.findings)
        return pattern if self.findings.errors == errors else None

    # Names.

    def define(self, name: ast.Name) -> bool:
        if why := reserved(name.text):
            self.findings.error("E0208", name.span, why)
        if name.text in self.defined:
            message = f"`{name.text}` is defined twice in this pattern"
            note = Note("the first definition", self.defined[name.text])
            self.findings.error("E0202", name.span, message, notes=(note,))
            return False
        self.defined[name.text] = name.span
        return True

    def parameter(self, written: ast.Parameter) -> None:
        tag = written.tag
        excluded = None
        if isinstance(tag, ast.Excluded):
            excluded = excluded_sources(tag, self.scope, self.findings)
        if isinstance(tag, ast.Name) and tag.text != "const":
            message = f"unknown sort of parameter `{tag.text}`"
            dims = "" if written.dims is None else written.dims.span.text
            hint = sort_meant(tag.text, written.name.text, dims)
            last = written.dims or tag
            whole = Span(tag.span.source, written.name.span.start, last.span.end)
            self.findings.error("E0206", tag.span, message, hint, place=whole)
        is_known = excluded is not None or not isinstance(tag, ast.Excluded)
        if self.define(written.name) and is_known:
            name, constant = written.name.text, isinstance(tag, ast.Name)
            optional, span = written.optional, written.name.span
            self.parameters[name] = Parameter(name, constant, optional, excluded, span)
            if written.dims is not None:
                self.dims(self.parameters[name], written.dims)

    def dims(self, parameter: Parameter, written: ast.Dims) -> None:
        """Add the conditions of named dimensions: the rank, and equal sizes for equal names."""
        names = [dim for dim in written.items if isinstance(dim, ast.Name)]
        said = [d.text if isinstance(d, ast.Name) else int(d.value) for d in written.items]
        for second in [name for name in names if name.text == OPEN][1:]:
            message = "a second `..` leaves open which dimensions are meant"
            hint = "write `_` for each dimension of any size"
            self.findings.error("E0301", second.span, message, hint)
            said[written.items.index(second)] = ANY
        for name in names:
            if name.text not in (ANY, OPEN, *self.dimensions.places) and (
                why := reserved(name.text)
            ):
                self.findings.error("E0208", name.span, why)
        for axis, where in self.dimensions.demands(parameter, said):
            span = written.span if axis is None else written.items[axis].span
            self.demands.append(replace(where, span=span))

    def binding(self, written: ast.Binding) -> None:
        value = self.operand(written.value)
        if self.define(written.name) and value is not None:
            self.bindings[written.name.text] = Binding(written.name.text, value)
            if self.is_result_of(value):
                self.computed.add(written.name.text)

    def result(self) -> ast.Name | None:
        yields = [s for s in self.written.statements if isinstance(s, ast.Yield)]
        if not yields:
            if not self.broken:
                message = f"pattern `{self.written.name.text}` has no `yield`"
                self.findings.error("E0304", self.written.name.span, message, "end with `yield y;`")
            return None
        if len(yields) > 1:
            message = "a pattern yields its results at once"
            note = Note("yielded here first", yields[0].span)
            hint = "write `yield y, z;`"
            self.findings.error("E0304", yields[1].span, message, hint, notes=(note,))
            return None
        known = [self.is_result(name) for name in yields[0].names]
        first, *self.others = yields[0].names
        twice = [name for at, name in enumerate(self.others) if name.text in _texts(yields[0], at)]
        for name in twice:
            self.findings.error("E0304", name.span, f"`{name.text}` is yielded twice")
        return first if all(known) and not twice else None

    def is_result(self, name: ast.Name) -> bool:
        if name.text in self.parameters:
            message = f"`{name.text}` is a parameter, so this pattern has no operator in it"
            self.findings.error("E0301", name.span, message)
            return False
        return self.is_known(name)

    def taps(self) -> bool:
        """Whether the pattern allows inner values to be used outside."""
        said = [s.value for s in self.written.statements if isinstance(s, ast.Taps)]
        for value in said:
            if value.text not in ("none", "allowed"):
                message = "`taps` are `allowed` or `none`"
                self.findings.error("E0404", value.span, message)
        for value in said[1:]:
            self.findings.error("E0502", value.span, "`taps` are given twice")
        if said and said[0].text == "none":
            self.check_shared(said[0])
        return bool(said) and said[0].text == "allowed"

    def check_shared(self, none: ast.Name) -> None:
        """Report `taps none` beside a call that is `shared`."""
        for call in self.calls():
            if call.shared and call.span is not None:
                message = "`taps none` forbids what `shared` after a call allows"
                note = Note("shared here", call.span)
                self.findings.error("E0502", none.span, message, "take out `taps none;`", (note,))
                return

    def anchor(self) -> str:
        """The name of the anchor operator; empty if none is given."""
        said = [s.name for s in self.written.statements if isinstance(s, ast.Anchor)]
        for name in said[1:]:
            self.findings.error("E0502", name.span, "the anchor is given twice")
        if not said or not self.is_known(said[0]):
            return ""
        binding = self.bindings.get(said[0].text)
        if binding is None or not _is_operator(binding.value):
            self.no_anchor(said[0])
        return said[0].text

    def no_anchor(self, name: ast.Name) -> None:
        message = f"`{name.text}` is not an operator of this pattern in every match"
        hint = "the anchor is a value such as `k` in `k = nn.conv2d(x, w);`"
        self.findings.error("E0310", name.span, message, hint)

    def is_known(self, name: ast.Name) -> bool:
        if name.text in self.defined:
            return True
        if name.text in self.broken or _ANY_NAME in self.broken:
            return False
        if name.text in self.all_names:
            message = f"`{name.text}` is used before it is defined"
            self.findings.error("E0206", name.span, message)
        else:
            hint = did_you_mean(name.text, self.defined) or there_are(self.defined)
            self.findings.error("E0206", name.span, f"unknown name `{name.text}`", hint)
        return False

    # Operands.

    def operand(self, written: ast.Operand) -> Operand | None:
        match written:
            case ast.Name("_"):
                return Anything()
            case ast.Name(text):
                return Reference(text) if self.is_known(written) else None
            case ast.Number():
                return self.number(written)
            case ast.OperatorCall():
                return self.call(written)
            case ast.TupleOf(fields):
                found = [self.operand(part) for part in fields]
                present = tuple(part for part in found if part is not None)
                return TupleOf(present) if len(present) == len(found) else None
            case ast.FieldOf(of, index):
                inner = self.operand(of)
                return None if inner is None else FieldOf(inner, index)
            case ast.Repeat():
                return self.repeat(written)
            case ast.TupleOfEach():
                return self.tuple_of_each(written)
            case ast.PathFrom():
                return self.path_from(written)
            case ast.Either():
                return self.either(written)

    def number(self, written: ast.Number) -> Number:
        if not written.approximate:
            return Number(float(written.value))
        tolerance = TOLERANCE if written.within is None else float(written.within.value)
        if written.within is not None and not 0 < tolerance < 1:
            message = f"a tolerance is between 0 and 1, not {written.within.span.text}"
            hint = "it is relative: `~0.5 within 0.01` is 0.495 to 0.505"
            self.findings.error("E0311", written.within.span, message, hint)
        elif written.value == 0:
            message = "a tolerance is relative, so that nothing but 0 is near 0"
            self.findings.warning("W0317", written.span, message, write("0"))
        return Number(float(written.value), tolerance)

    def either(self, written: ast.Either) -> Either | None:
        found = [self.operand(choice) for choice in written.choices]
        seen: set[Operand] = set()
        for choice, place in zip(found, written.choices, strict=True):
            if choice in seen:
                message = "an alternative before says the same, so that this one adds nothing"
                self.findings.warning("W0316", place.span, message)
            elif choice is not None:
                seen.add(choice)
        present = tuple(choice for choice in found if choice is not None)
        return Either(present) if len(present) == len(found) else None

    def tuple_of_each(self, written: ast.TupleOfEach) -> TupleOfEach | None:
        if not 0 < written.least <= written.most <= MAX_FIELDS:
            message = f"a tuple has from 1 up to {MAX_FIELDS} fields here, the fewest first"
            self.findings.error("E0301", written.span, message, "write `each[2..8] act(_)`")
        field = self.operand(written.field)
        return None if field is None else TupleOfEach(field, written.least, written.most)

    def path_from(self, written: ast.PathFrom) -> PathFrom | None:
        least, most = written.least, written.most
        if not 0 <= least <= most <= MAX_DEPTH or most == 0:
            message = f"a path has from 0 up to {MAX_DEPTH} calls, the fewest first"
            self.findings.error("E0301", written.span, message, "write `path[1..6] act from x`")
        names = [name for name in written.operators if isinstance(name, ast.Name)]
        for other in written.operators:
            if not isinstance(other, ast.Name):
                message = "a path consists of operators, and this is none"
                self.findings.error("E0201", other.span, message)
        check_twice([(name.text, name.span) for name in names], self.findings)
        found = named_members(names, self.scope, self.findings)
        origin = self.operand(written.origin)
        if found is None or origin is None or len(names) < len(written.operators):
            return None
        ops, kinds = found
        return PathFrom(ops, origin, least, most, kinds)

    def repeat(self, written: ast.Repeat) -> Repeat | None:
        if not 0 <= written.least <= written.most <= MAX_DEPTH or written.most == 0:
            message = f"something is repeated from 0 up to {MAX_DEPTH} times, the fewest first"
            hint = "write `repeat[1..6] act(x)`"
            if 0 <= written.most < written.least <= MAX_DEPTH and written.least:
                hint = f"write `repeat[{written.most}..{written.least}] …`"
            self.findings.error("E0301", written.span, message, hint)
        if not written.call.operands or written.call.optional:
            message = "what is repeated takes the value before, and is not optional"
            self.findings.error("E0301", written.call.span, message)
            return None
        call = self.call(written.call)
        return None if call is None else Repeat(call, written.least, written.most)

    def call(self, written: ast.OperatorCall) -> Call | PatternCall | None:
        names = [name for name in written.operators if isinstance(name, ast.Name)]
        check_twice([(name.text, name.span) for name in names], self.findings)
        called = [name for name in names if self.scope.is_pattern(name.text)]
        if called and len(written.operators) == 1:
            return self.pattern_call(written, called[0])
        for name in called:
            message = f"`{name.text}` is a pattern, and only operators can be called together"
            hint = f"write `({' | '.join(f'{each.text}(…)' for each in names)})`"
            self.findings.error("E0201", name.span, message, hint)
        for other in written.operators:
            if not isinstance(other, ast.Name):
                message = "this is no operator, so that nothing can be called here"
                hint = "alternatives that are called have operands of their own alone"
                self.findings.error("E0201", other.span, message, hint)
        found = [self.class_of(name, written) for name in names if name not in called]
        members = distinct(each or () for each in found)
        known = tuple(each for each in members if isinstance(each, Operator))
        kinds = tuple(each for each in members if isinstance(each, Kind))
        complete = len(found) == len(written.operators) and None not in found
        operands = [self.operand(operand) for operand in written.operands]
        if complete and not kinds:
            self.check_literals(known, written, operands)
            check_order(known, written, operands, self.parameters, self.findings)
        attributes: list[Where | None] = []
        if kinds:
            self.no_attributes(written, kinds[0])
        elif known:
            attributes = [self.attribute(known, each) for each in written.attributes]
        present = tuple(operand for operand in operands if operand is not None)
        conditions = tuple(where for where in attributes if where is not None)
        takes_none = kinds or any(op.operands is None for op in known)
        if written.optional and not written.operands and takes_none:
            message = "an optional operator needs an operand to stand for"
            self.findings.error("E0301", written.span, message)
        if not complete or len(present) < len(operands):
            return None
        ops = tuple(operator.name for operator in known)
        modifiers = _modifiers(written)
        return Call(
            ops,
            present,
            conditions,
            written.optional,
            "ordered" in modifiers,
            "shared" in modifiers,
            kinds,
            _of_operators(written),
        )

    def class_of(self, name: ast.Name, call: ast.OperatorCall) -> tuple[Member, ...] | None:
        """What `name` in a call stands for: one operator, or the members of a class."""
        found = self.scope.class_of(name)
        given = len(call.operands)
        for each in found or ():
            if isinstance(each, Kind):
                fits = check_kind_count(each, given, call.span, self.findings)
            else:
                fits = check_count(each, given, call.span, "the pattern", self.findings)
            if not fits:
                return None
        return found

    def no_attributes(self, written: ast.OperatorCall, kind: Kind) -> None:
        for attribute in written.attributes:
            message = f"operators of the kind `{kind}` have no attributes in common"
            hint = "name the operators whose attributes are asked"
            self.findings.error("E0306", attribute.span, message, hint)

    def pattern_call(self, written: ast.OperatorCall, name: ast.Name) -> PatternCall | None:
        pattern = self.scope.pattern(name)
        operands = [self.operand(operand) for operand in written.operands]
        for modifier in written.modifiers:
            message = f"a pattern cannot be called `{modifier.text}`"
            hint = "write it after the operators in the pattern"
            self.findings.error("E0306", modifier.span, message, hint)
        for attribute in written.attributes:
            message = "a pattern has no attributes"
            hint = "ask in the pattern, or about its result in a `where` statement"
            self.findings.error("E0306", attribute.span, message, hint)
        if pattern is None:
            return None
        if pattern.others:
            message = f"`{pattern.name}` yields several results, so that no call stands for it"
            self.findings.error("E0304", written.span, message)
            return None
        wanted, given = len(pattern.parameters), len(operands)
        if wanted != given:
            message = f"`{pattern.name}` takes {count(wanted, 'operand')}, this gives {given}"
            names = ", ".join(parameter.name for parameter in pattern.parameters)
            hint = f"write `{pattern.name}({names})`"
            self.findings.error("E0203", written.span, message, hint)
            return None
        if written.optional and not operands:
            message = "an optional pattern needs an operand to stand for"
            self.findings.error("E0301", written.span, message)
        for parameter, operand, at in zip(
            pattern.parameters, operands, written.operands, strict=True
        ):
            if parameter.constant and operand is not None and self.is_result_of(operand):
                message = f"`{parameter.name}` of `{pattern.name}` is a constant, this is computed"
                self.findings.error("E0301", at.span, message)
            is_matched = not (written.optional or parameter.optional)
            excluded = parameter.excluded if is_matched else None
            if (
                excluded
                and operand
                and comes_from(operand, excluded, self.parameters, self.bindings)
            ):
                message = f"`{parameter.name}` of `{pattern.name}` is {excluded_text(excluded)}"
                hint = "this can never match: give it another value, or call another pattern"
                self.findings.error("E0301", at.span, message, hint)
        present = tuple(operand for operand in operands if operand is not None)
        if len(present) < given:
            return None
        return PatternCall(pattern, present, written.optional, _of_operators(written))

    def check_literals(
        self,
        known: tuple[Operator, ...],
        written: ast.OperatorCall,
        operands: list[Operand | None],
    ) -> None:
        """Report computed operands in places of shapes and bounds, which are always literals."""
        for at, (operand, place) in enumerate(zip(operands, written.operands, strict=True)):
            names = [op.operands[at] for op in known if op.operands]
            literal = bool(names) and all(
                op.operands and op.operands[at] in op.literals for op in known
            )
            if literal and operand is not None and self.is_computed(operand):
                message = f"`{names[0]}` of `{known[0].name}` is neither computed nor a constant"
                hint = "it is a shape or number written in the program; match it with `_`"
                self.findings.error("E0301", place.span, message, hint)
            elif isinstance(operand, Number) and _are_lists(known, at):
                message = f"`{names[0]}` of `{known[0].name}` is a list, which no number equals"
                self.findings.error("E0301", place.span, message, "match it with `_`")

    def is_computed(self, operand: Operand) -> bool:
        """Whether `operand` matches only computed values and constants."""
        match operand:
            case Reference(name) if name in self.parameters:
                return self.parameters[name].constant
            case Reference() | Call() | PatternCall() | FieldOf() | Repeat():
                return True
            case TupleOf() | TupleOfEach() | PathFrom():
                return True
            case Either(choices):
                return all(map(self.is_computed, choices))
            case _:
                return False

    def is_result_of(self, operand: Operand) -> bool:
        """Whether `operand` is the result of an operator, however it matches."""
        match operand:
            case Reference(name):
                return name in self.computed
            case Call(optional=optional):
                return not optional
            case TupleOf() | TupleOfEach() | FieldOf():
                return True
            case Repeat(Call(), least) | PathFrom(least=least):
                return least > 0
            case Either(choices):
                return all(map(self.is_result_of, choices))
            case _:
                return False

    def attribute(self, known: tuple[Operator, ...], written: ast.Expression) -> Where | None:
        if isinstance(written, ast.Literal) and type(written.value) is int:
            message = "a condition is needed here, this is a number"
            hint = f"write `.{written.value}` for a field of a tuple"
            self.findings.error("E0303", written.span, message, hint)
            return None
        where = Checker(self.findings, AttributeScope(known, self.findings, self)).condition(
            written
        )
        if where is not None:
            check_values(where, known, self.findings)
        return where

    # Conditions.

    def where(self, written: ast.Where) -> Where | None:
        checker = Checker(self.findings, self)
        where = checker.condition(written.condition, written.reason)
        if where:
            asked = checker.asked - checker.has
            self.asked.append((where, asked & set(self.bindings)))
            self.check_absence(where, {name for name in asked if self.is_optional(name)})
        return where

    def check_absence(self, where: Where, names: set[str]) -> None:
        """Report a condition that cannot hold if one of the optional `names` is not bound."""
        for name in sorted(names):
            if where.span and not can_hold(where.condition, name):
                message = f"where there is no `{name}`, this is unknown"
                hint = f"`not has({name}) or …` lets it match"
                message += " and the pattern does not match"
                self.findings.warning("W0307", where.span, message, hint)
                return

    def is_optional(self, name: str) -> bool:
        return name in self.parameters and self.parameters[name].optional

    def name(self, name: ast.Name) -> Typed | None:
        if dtype := dtype_of(name):
            return dtype
        place = self.dimensions.place(name.text)
        if place is not None and name.text not in self.all_names:
            return Typed(place, Sort.NUMBER, name.span)
        if attribute := self.attribute_of(name):
            return attribute
        if name.text in self.defined:
            message = f"`{name.text}` is a value of the model, which is not known here"
            hint = f"ask for `dtype({name.text})`, `shape({name.text})` or `dim({name.text}, 0)`"
            if name.text in self.parameters and self.parameters[name.text].constant:
                hint = f"ask for `value({name.text})`, or `all({name.text} >= 0)` of its elements"
            self.findings.error("E0306", name.span, message, hint)
        elif self.is_no_attribute(name):
            pass
        elif any(name.text in self.attributes_of(call) for call in self.calls()):
            message = f"the attribute `{name.text}` cannot be asked here"
            self.findings.error("E0306", name.span, message, "ask it in brackets after the call")
        elif not self.broken & {name.text, _ANY_NAME}:
            hint = function_meant(name.text, FUNCTIONS) or dtype_meant(name.text)
            hint = hint or truth_meant(name.text) or no_attribute(name.text)
            hint = hint or did_you_mean(name.text, self.defined)
            self.findings.error("E0206", name.span, f"unknown name `{name.text}`", hint)
        return None

    # Attributes of other calls.

    def call_of(self, name: str) -> Call | None:
        """The call that the value `name` is in every match; None if it need not be a call."""
        binding = self.bindings.get(name)
        while binding is not None and isinstance(binding.value, Reference):
            binding = self.bindings.get(binding.value.name)
        call = binding and binding.value
        return call if isinstance(call, Call) and not call.optional else None

    def owners(self, attribute: ast.Name) -> tuple[Operator, ...]:
        call = self.call_of(attribute.text.partition(".")[0])
        return () if call is None else tuple(operators()[op] for op in call.ops)

    def attribute_of(self, name: ast.Name) -> Typed | None:
        """`k.strides`, if all operators that `k` may be a call of have the attribute."""
        of, _, attribute = name.text.partition(".")
        types = [operator.attrs.get(attribute) for operator in self.owners(name)]
        if not types or None in types:
            return None
        sort = OF_ATTRIBUTE.get(types[0] or "", Sort.ANY)
        return Typed(AttrOf(of, attribute), sort, name.span, attribute=name.text)

    def is_no_attribute(self, name: ast.Name) -> bool:
        """Whether `name` is written like an attribute of a value, but is none; reports it."""
        of, _, attribute = name.text.partition(".")
        if not attribute or of not in self.bindings or function_meant(name.text, FUNCTIONS):
            return False
        lacking = [op for op in self.owners(name) if attribute not in op.attrs]
        if lacking:
            unknown_attribute(lacking[0], ast.Name(attribute, name.span), self.findings)
        else:
            message = f"`{of}` is not the call of an operator in every match"
            hint = "only a call has attributes, such as `k` in `k = nn.conv2d(x, w);`"
            self.findings.error("E0306", name.span, message, hint)
        return True

    # Constants.

    def is_value(self, name: str) -> bool:
        return name in self.defined

    def constant(self, of: ast.Name) -> bool:
        found = self.parameters.get(of.text)
        binding = self.bindings.get(of.text)
        if found is None and binding is not None and isinstance(binding.value, Reference):
            return self.constant(replace(of, text=binding.value.name))
        if found is not None and found.constant:
            return True
        if found is None:
            message = f"`{of.text}` is computed, so that its elements are not known"
            hint = "constants are parameters: `w: const`"
        else:
            message = f"`{of.text}` need not be a constant, so that its elements are not known"
            hint = f"write `{of.text}{'?' * found.optional}: const` among the parameters"
        self.findings.error("E0306", of.span, message, hint)
        return False

    def calls(self) -> Iterator[Call]:
        for binding in self.bindings.values():
            yield from calls(binding.value)

    def attributes_of(self, call: Call) -> set[str]:
        return {name for op in call.ops for name in operators()[op].attrs}

    def fact(self, function: ast.Name, of: ast.Name) -> bool:
        if not self.is_known(of):
            return False
        if function.text == "has" and of.text in self.bindings:
            self.asked_has.append(of)  # only later it is known whether it is optional
        elif function.text == "has" and not self.is_optional(of.text):
            self.always_there(of)
            return False
        return True

    def predicates(self) -> Mapping[str, Predicate | None]:
        return self.scope.predicates

    def use(self, predicate: ast.Name) -> None:
        self.scope.note_use(predicate)

    def always_there(self, name: ast.Name) -> None:
        message = f"`{name.text}` is always there: `has` asks about what is optional"
        hint = f"write `{name.text}?` where it is a parameter that may be absent"
        hint = hint if name.text in self.parameters else ""
        self.findings.error("E0306", name.span, message, hint)

    # Uses of names.

    def check_use(self, result: ast.Name) -> None:
        """Report names that the result never uses, and optional names that it always uses."""
        reached, always = self.reached(result.text), self.always(result.text)
        values = [self.bindings[name].value for name in reached if name in self.bindings]
        if not any(size(value, self.scope.sizes) for value in values):
            message = f"there is no operator in `{result.text}`"
            self.findings.error("E0301", result.span, message)
        for other in self.others:
            there = self.always(other.text)
            if not always & there:
                message = f"`{other.text}` has nothing in common with `{result.text}`"
                hint = "something has to lead to both, whatever is missing"
                self.findings.error("E0301", other.span, message, hint)
            reached |= self.reached(other.text)
            always |= there
        for name, span in self.defined.items():
            parameter = self.parameters.get(name)
            if name not in reached:
                message = f"`{name}` does not lead to the result `{result.text}`"
                hint = f"use `{name}`, or take it out"
                self.findings.error("E0207", span, message, hint)
            elif parameter and parameter.optional and name in always:
                message = f"`{name}` is optional, but some operator always takes it"
                hint = f"write `{name}`, or make the operator optional: `add?(…, {name})`"
                self.findings.error("E0305", span, message, hint)
            elif parameter and not parameter.optional and name not in always:
                message = f"`{name}` is not optional, so the operator that takes it is not either"
                self.findings.warning("W0308", span, message, write(f"{name}?"))
        for asked in self.asked_has:
            if asked.text in always:
                self.always_there(asked)
        anchors = [s.name for s in self.written.statements if isinstance(s, ast.Anchor)]
        for anchor in anchors:
            if anchor.text in self.bindings and anchor.text not in always:
                self.no_anchor(anchor)
        for where, names in self.asked:
            self.check_absence(where, names - always)

    def check_depth(self, pattern: Pattern) -> bool:
        """Whether the pattern is small enough: matching it is recursive, from the result down."""
        scope, total = self.scope, 0
        depths: dict[str, int] = {}
        for name, binding in self.bindings.items():
            depths[name] = depth(binding.value, depths, scope.depths)
            depths[name] += isinstance(binding.value, Reference)
            total += size(binding.value, scope.sizes)
            if depths[name] > MAX_DEPTH:
                message = f"the pattern is more than {MAX_DEPTH} operators deep here"
                self.findings.error("E0105", self.defined[name], message)
                return False
            if total > MAX_SIZE:
                message = f"written out, this pattern has more than {MAX_SIZE} calls"
                self.findings.error("E0406", self.defined[name], message)
                return False
        scope.depths[id(pattern)] = max(depths.values())
        scope.sizes[id(pattern)] = total
        return True

    def reached(self, result: str) -> set[str]:
        """The names that the result uses, directly or indirectly."""
        reached: set[str] = set()
        waiting = [result]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                if name in self.bindings:
                    waiting += references(self.bindings[name].value)
        return reached

    def always(self, result: str) -> frozenset[str]:
        """The names that are bound in every match of `result`, including `result`."""
        return always_there(self.parameters.values(), self.bindings.values(), (result,))


def _are_lists(known: tuple[Operator, ...], at: int) -> bool:
    """Whether all operators take a list of numbers at the place `at`."""
    return all(operator.takes[at : at + 1] == ("list",) for operator in known)


def _texts(written: ast.Yield, end: int) -> set[str]:
    return {name.text for name in written.names[: end + 1]}


def _modifiers(written: ast.OperatorCall) -> set[str]:
    return {modifier.text for modifier in written.modifiers}


def _is_operator(operand: Operand) -> bool:
    """Whether `operand` is an operator call in this pattern, however it matches."""
    match operand:
        case Call(optional=optional):
            return not optional
        case Either(choices):
            return all(map(_is_operator, choices))
        case _:
            return False


def _of_operators(written: ast.OperatorCall) -> Span:
    first, last = written.operators[0].span, written.operators[-1].span
    return Span(first.source, first.start, last.end)
