"""Check operands and calls in a pattern, and build those of `rules` from them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.messages.findings import Findings, count
from collage_dsl.language.messages.hints import write
from collage_dsl.language.reasoning.findings.excluded import comes_from
from collage_dsl.language.reasoning.findings.list_items import check_twice
from collage_dsl.language.reasoning.findings.operand_order import check_order
from collage_dsl.language.reasoning.operators.calls import check_count, check_kind_count
from collage_dsl.language.resolve.bounds import check_bounds
from collage_dsl.language.resolve.brackets import check_attributes
from collage_dsl.language.resolve.condition_scope import Scope
from collage_dsl.language.resolve.excluded import named_members
from collage_dsl.language.resolve.flat_calls import flat_call
from collage_dsl.language.resolve.literal_operands import check_literals, is_wrong_bracket, needed
from collage_dsl.language.resolve.pattern_names import Names
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.language.resolve.same_choices import check_same_choices
from collage_dsl.language.resolve.scope import (
    Member,
    PatternScope,
    distinct,
)
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import TOLERANCE, Where
from collage_dsl.rules.pattern import (
    ANY,
    OPEN,
    Anything,
    Binding,
    Call,
    Either,
    FieldOf,
    Flat,
    ListOf,
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
from collage_dsl.rules.written import excluded_text
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class OperandChecker:
    """
    Check operands that use `names`. `values` is what names in brackets mean if they are no
    attributes. A wrong operand is reported once and becomes None.
    """

    names: Names
    values: Scope
    scope: PatternScope
    findings: Findings

    def operand(self, written: ast.Operand, wish: str = "list", needed: str = "") -> Operand | None:
        """
        `wish` is the name of a list with named items, if it is free. `needed` says what is to be
        written here, unless it is any value.
        """
        match written:
            case ast.Name("_"):
                return Anything()
            case ast.Name(text):
                is_known = self.names.is_known(written, needed)
                return Reference(text, written.span) if is_known else None
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
                return self.either(written, wish)
            case ast.ListOf():
                return self.list_operand(written, wish)

    def number(self, written: ast.Number) -> Number:
        if not written.approximate:
            return Number(float(written.value))
        tolerance = TOLERANCE if written.within is None else float(written.within.value)
        if written.within is not None and not 0 < tolerance < 1:
            message = f"a tolerance must be between 0 and 1, not {written.within.span.text}"
            hint = "it is relative: `~0.5 within 0.01` is 0.495 to 0.505"
            self.findings.error("E0311", written.within.span, message, hint)
        elif written.value == 0:
            message = "a tolerance is relative, so only 0 itself is near 0"
            self.findings.warning("W0317", written.span, message, write("0"))
        return Number(float(written.value), tolerance)

    def list_operand(self, written: ast.ListOf, wish: str) -> ListOf | Reference:
        """A list. If its items have names, it becomes an equation, so that it has a name itself."""
        if not any(item.text not in (ANY, OPEN) for item in _names(written)):
            return self.list_of(written, "")
        name = self.names.free(wish)
        self.names.defined[name] = written.span
        self.names.bindings[name] = Binding(name, self.list_of(written, name))
        return Reference(name)

    def list_of(self, written: ast.ListOf, name: str) -> ListOf:
        """The list of that `name`, whose named items are noted as dimensions of it."""
        said = [i.text if isinstance(i, ast.Name) else int(str(i.value)) for i in written.items]
        names = _names(written)
        for second in [item for item in names if item.text == OPEN][1:]:
            message = "a second `..` leaves open which items are meant"
            self.findings.error("E0301", second.span, message, "write `_` for any item")
        for item in names:
            if item.text in self.names.everything:
                message = f"`{item.text}` is a value, and an item of a list is a number"
                hint = f"name the item otherwise; `where` can compare it with `dim({item.text}, 0)`"
                self.findings.error("E0306", item.span, message, hint)
            elif item.text not in (ANY, OPEN) and (why := reserved(item.text)):
                self.findings.error("E0208", item.span, why)
        self.names.dimensions.note_list(name, said, [item.span for item in written.items])
        kept = (item if isinstance(item, int) else OPEN if item == OPEN else ANY for item in said)
        return ListOf(tuple(kept))

    def either(self, written: ast.Either, wish: str) -> Either | None:
        found = [self.operand(choice, wish) for choice in written.choices]
        check_same_choices(found, written.choices, self.findings)
        present = tuple(choice for choice in found if choice is not None)
        return Either(present) if len(present) == len(found) else None

    def tuple_of_each(self, written: ast.TupleOfEach) -> TupleOfEach | None:
        check_bounds(written, self.findings)
        field = self.operand(written.field)
        return None if field is None else TupleOfEach(field, written.least, written.most)

    def path_from(self, written: ast.PathFrom) -> PathFrom | None:
        check_bounds(written, self.findings)
        names = [name for name in written.operators if isinstance(name, ast.Name)]
        for other in written.operators:
            if not isinstance(other, ast.Name):
                message = "a path consists of operators, but this is not an operator"
                self.findings.error("E0201", other.span, message)
        check_twice([(name.text, name.span) for name in names], self.findings)
        found = named_members(names, self.scope, self.findings)
        origin = self.operand(written.origin)
        if found is None or origin is None or len(names) < len(written.operators):
            return None
        ops, kinds = found
        of_operators = _of_operators(written)
        return PathFrom(ops, origin, written.least, written.most, kinds, of_operators)

    def repeat(self, written: ast.Repeat) -> Repeat | None:
        check_bounds(written, self.findings)
        if not written.call.operands or written.call.optional:
            message = "a repeated call needs an operand and cannot be optional"
            hint = f"write `repeat[0..{written.most}]`, and the call without `?`"
            self.findings.error(
                "E0301", written.call.span, message, hint if written.call.optional else ""
            )
            return None
        call = self.call(written.call)
        if isinstance(call, Flat):
            message = "a flat call is not repeated: the calls of a chain are part of it already"
            self.findings.error("E0301", written.call.span, message)
            return None
        if isinstance(call, PatternCall) and written.most > 1:
            self.check_again(call, written)
        return None if call is None else Repeat(call, written.least, written.most, written.span)

    def check_again(self, call: PatternCall, written: ast.Repeat) -> None:
        """Report a pattern that never takes what it gives, so that it is not repeated."""
        name, first = call.pattern.name, call.pattern.parameters[0]
        found = self.refusal(call.pattern, first, call, is_matched=not first.optional)
        if found is None:
            return
        message = f"`{name}` cannot follow itself: {found[0]}"
        sort = "const" if first.constant else "not"
        hint = f"write `{name}(…)` without `repeat`, or `{first.name}` of `{name}` without `{sort}`"
        if written.least > 1:
            self.findings.error("E0301", written.span, message, hint)
        else:
            self.findings.warning("W0314", written.span, message, hint)

    def call(self, written: ast.OperatorCall) -> Call | PatternCall | Flat | None:
        names = [name for name in written.operators if isinstance(name, ast.Name)]
        check_twice([(name.text, name.span) for name in names], self.findings)
        called = [name for name in names if self.scope.is_pattern(name.text)]
        if called and len(written.operators) == 1:
            return self.pattern_call(written, called[0])
        if any(modifier.text == "flat" for modifier in written.modifiers):
            return flat_call(written, self.operand, self.scope, self.findings)
        for name in called:
            message = f"`{name.text}` is a pattern, but only operators can be called together"
            hint = f"write `({' | '.join(f'{each.text}(…)' for each in names)})`"
            self.findings.error("E0201", name.span, message, hint)
        for other in written.operators:
            if not isinstance(other, ast.Name):
                message = "this is not an operator, so it cannot be called"
                hint = "give each alternative its own operands: `(nn.relu(x) | p(x))`"
                self.findings.error("E0201", other.span, message, hint)
        found = [self.class_of(name, written) for name in names if name not in called]
        members = distinct(each or () for each in found)
        known = tuple(each for each in members if isinstance(each, Operator))
        kinds = tuple(each for each in members if isinstance(each, Kind))
        complete = len(found) == len(written.operators) and None not in found
        wishes = (known[0].operands if known else None) or ()
        operands = [
            self.operand(
                operand, wishes[at] if at < len(wishes) else "list", needed(known, kinds, at)
            )
            if not is_wrong_bracket(known, at, operand, self.findings)
            else None
            for at, operand in enumerate(_taken(written))
        ]
        if complete and not kinds:
            check_literals(known, written, operands, self.names, self.findings)
            check_order(known, written, operands, self.names.parameters, self.findings)
        conditions: tuple[Where, ...] = ()
        if kinds:
            self.no_attributes(written, kinds[0])
        elif known:
            conditions = check_attributes(known, written, self.names, self.values, self.findings)
        present = tuple(operand for operand in operands if operand is not None)
        takes_none = kinds or any(op.operands is None for op in known)
        if written.optional and not written.operands and takes_none:
            message = "an optional operator needs at least one operand"
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
        found = self.scope.class_of(name, self.names.defined)
        given = [operand.span.text for operand in call.operands]
        together = len(call.operators) > 1 or len(found or ()) > 1
        for each in found or ():
            if isinstance(each, Kind):
                fits = check_kind_count(each, len(given), call.span, self.findings)
            else:
                fits = check_count(
                    each, given, call.span, "the pattern", self.findings, together=together
                )
            if not fits:
                return None
        return found

    def no_attributes(self, written: ast.OperatorCall, kind: Kind) -> None:
        for attribute in written.attributes:
            message = f"operators of the kind `{kind}` have no attributes in common"
            hint = "name operators in place of the kind"
            self.findings.error("E0306", attribute.span, message, hint)

    def pattern_call(self, written: ast.OperatorCall, name: ast.Name) -> PatternCall | None:
        pattern = self.scope.pattern(name)
        operands = [self.operand(operand) for operand in written.operands]
        for modifier in written.modifiers:
            message = f"`{modifier.text}` cannot follow the call of a pattern"
            hint = "write it after the operators in the pattern"
            self.findings.error("E0306", modifier.span, message, hint)
        for attribute in written.attributes:
            message = "a pattern has no attributes"
            hint = "write the condition in the pattern, or in a `where` about its result"
            self.findings.error("E0306", attribute.span, message, hint)
        if pattern is None:
            return None
        if pattern.others:
            message = f"`{pattern.name}` yields several results, so it cannot be called"
            self.findings.error("E0304", written.span, message)
            return None
        wanted, given = len(pattern.parameters), len(operands)
        if wanted != given:
            message = (
                f"`{pattern.name}` takes {count(wanted, 'operand')}, but this call has {given}"
            )
            names = ", ".join(parameter.name for parameter in pattern.parameters)
            hint = f"write `{pattern.name}({names})`"
            self.findings.error("E0203", written.span, message, hint)
            return None
        if written.optional and not operands:
            message = "an optional pattern needs at least one operand"
            self.findings.error("E0301", written.span, message)
        for parameter, operand, at in zip(
            pattern.parameters, operands, written.operands, strict=True
        ):
            if operand is not None:
                is_matched = not (written.optional or parameter.optional)
                self.check_given(pattern, parameter, operand, at, is_matched=is_matched)
        present = tuple(operand for operand in operands if operand is not None)
        if len(present) < given:
            return None
        return PatternCall(pattern, present, written.optional, _of_operators(written))

    def check_given(
        self,
        pattern: Pattern,
        parameter: Parameter,
        operand: Operand,
        written: ast.Operand,
        *,
        is_matched: bool,
    ) -> None:
        """Report what a parameter of a called pattern never is. It may be absent if not matched."""
        found = self.refusal(pattern, parameter, operand, is_matched=is_matched)
        if found is not None:
            self.findings.error("E0301", written.span, *found)
            return
        for part, place, said in self.parts_of(operand, written):
            found = self.refusal(pattern, parameter, part, is_matched=is_matched)
            if found is not None:
                message, hint = found
                self.findings.warning("W0314", place, f"{said} never matches: {message}", hint)

    def parts_of(
        self, operand: Operand, written: ast.Operand
    ) -> Iterator[tuple[Operand, Span, str]]:
        """The parts of an operand that may be absent, or match in its place; with words for it."""
        match operand, written:
            case Either(choices), ast.Either(places):
                for choice, place in zip(choices, places, strict=True):
                    yield choice, place.span, "this part"
            case ((Call(optional=True) | PatternCall(optional=True)), ast.OperatorCall()):
                yield replace(operand, optional=False), written.span, "this part"
            case ((Repeat(least=0) | PathFrom(least=0)), _):
                yield replace(operand, least=1), written.span, "this part"
            case Call(), ast.OperatorCall(operators) if len(operators) > 1:
                for name in operators:
                    members = (isinstance(name, ast.Name) and self.scope.class_of(name)) or ()
                    ops = tuple(each.name for each in members if isinstance(each, Operator))
                    kinds = tuple(each for each in members if isinstance(each, Kind))
                    yield replace(operand, ops=ops, kinds=kinds), name.span, f"`{name.span.text}`"

    def refusal(
        self, pattern: Pattern, parameter: Parameter, operand: Operand, *, is_matched: bool
    ) -> tuple[str, str] | None:
        """Why a parameter of a called pattern is never `operand`, and a hint; None if it may be."""
        if parameter.constant and (why := self.names.is_no_constant(operand)):
            message = f"`{parameter.name}` of `{pattern.name}` must be a constant, but {why}"
            return message, f"give it a constant, or write `{parameter.name}` there without `const`"
        excluded = parameter.excluded if is_matched else None
        known = self.names.parameters, self.names.bindings
        if excluded and comes_from(operand, excluded, *known):
            declared = f"{parameter.name}: {excluded_text(excluded)}"
            message = f"`{pattern.name}` excludes this value: `{declared}`"
            return message, "use another value, or call another pattern"
        return None


def _taken(written: ast.OperatorCall) -> tuple[ast.Operand, ...]:
    """The operands without those that are too many, which are attributes by mistake."""
    names = {operator.text for operator in written.operators if isinstance(operator, ast.Name)}
    known = [operators()[name].operands for name in names if name in operators()]
    if len(known) < len(written.operators) or None in known:
        return written.operands
    return written.operands[: max(len(each or ()) for each in known)]


def _names(written: ast.ListOf) -> list[ast.Name]:
    return [item for item in written.items if isinstance(item, ast.Name)]


def _modifiers(written: ast.OperatorCall) -> set[str]:
    return {modifier.text for modifier in written.modifiers}


def _of_operators(written: ast.OperatorCall | ast.PathFrom) -> Span:
    first, last = written.operators[0].span, written.operators[-1].span
    return Span(first.source, first.start, last.end)
