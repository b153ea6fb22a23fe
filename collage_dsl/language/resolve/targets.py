"""Check a `target` block and build its fusion spec."""

from collections.abc import Sequence
from dataclasses import replace

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Measuring, Option, Toolchain, Tuning
from collage_dsl.graph.tuning import TUNED
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.messages.hints import Hint, did_you_mean, write
from collage_dsl.language.reasoning.findings.computing import Places, check_computed
from collage_dsl.language.reasoning.findings.effects import check_proposing
from collage_dsl.language.reasoning.findings.fitting import check_fit
from collage_dsl.language.reasoning.findings.inner_limits import check_inner_limits
from collage_dsl.language.reasoning.findings.joining import check_joined, check_merging
from collage_dsl.language.reasoning.findings.too_small import check_least
from collage_dsl.language.reasoning.patterns.coverage import check_fallback
from collage_dsl.language.reasoning.patterns.limit_places import LimitPlaces
from collage_dsl.language.reasoning.patterns.single_calls import check_needed_limits
from collage_dsl.language.resolve.arguments import named_arguments
from collage_dsl.language.resolve.compilers import check_compiler, check_device, check_libs
from collage_dsl.language.resolve.libraries import NATIVE, check_code, check_libraries
from collage_dsl.language.resolve.limits import check_limits
from collage_dsl.language.resolve.measuring import MEASURES, check_measuring
from collage_dsl.language.resolve.rules import RuleScope
from collage_dsl.language.resolve.target_kinds import (
    check_kind,
    check_option,
    option_meant,
    option_value,
)
from collage_dsl.language.resolve.tuning import TUNES, check_tuning
from collage_dsl.language.resolve.variants import (
    check_allowed,
    check_direct,
    check_rule_variants,
    check_variants,
)
from collage_dsl.language.syntax import aliases, ast
from collage_dsl.language.syntax.words import SETTINGS
from collage_dsl.rules import FusionRule, FusionSpec, Limits
from collage_dsl.rules.rule_functions import LIMIT_NAMES
from collage_dsl.source import Span


def check_target(
    written: ast.Target, is_whole: bool, scope: RuleScope, findings: Findings
) -> FusionSpec | None:
    """
    The spec of `written`; None after reporting what is wrong in it.

    If a part has a syntax error (not `is_whole`), missing settings are not reported.
    """
    return _TargetChecker(written, is_whole, scope, findings).run()


_EXAMPLES = {
    "compiler": '"onnxruntime"',
    "variants": "[direct]",
    "priority": "10",
    "rules": "op_call_by_kind(anchor)",
    "taps": "allowed",
    "after": "max_coalesce()",
}
"""A right value of each setting for hints. The others are limits, which are numbers."""


class _TargetChecker:
    def __init__(
        self, written: ast.Target, is_whole: bool, scope: RuleScope, findings: Findings
    ) -> None:
        self.written = written
        self.is_whole = is_whole
        self.scope = scope
        self.findings = findings

    def run(self) -> FusionSpec | None:
        errors, own = self.findings.errors, self.written.name
        if "." in own.text:
            hint = write(own.text.replace(".", "_"))
            self.findings.error("E0208", own.span, "a name cannot contain a dot", hint)
        options = self.options()
        settings = self.settings()
        compiler = self.compiler(settings)
        variants = self.variants(settings, compiler)
        priority = self.priority(settings)
        rule = self.rules(settings)
        limits = self.limits(settings)
        measure = self.measure(settings)
        tune = self.tune(settings, compiler, variants)
        coalesce = self.after(settings)
        fallback = self.alone(settings.get("fallback"))
        if rule is None or self.findings.errors > errors:
            return None
        name, kind = self.written.name.text, self.written.kind.text
        target = Toolchain(name, kind, compiler, options, priority, measure, variants, tune)
        if self.is_whole:  # else a setting that cannot be read may be what a finding asks for
            self.check_rules(rule, limits, settings, coalesce=coalesce, fallback=fallback)
            self.check_libraries(rule, target, settings)
            lists, rules = self.scope.lists, self.rules_span(settings)
            check_allowed(rule, target, lists, rules, self.findings)
            if compiler in (None, NATIVE):
                self.check_native(rule, target, settings)
        return FusionSpec(target, rule, limits, coalesce, fallback)

    def check_rules(
        self,
        rule: FusionRule,
        limits: Limits,
        settings: dict[str, ast.Field | ast.Block],
        *,
        coalesce: bool,
        fallback: bool,
    ) -> None:
        """Check what the rule proposes within the limits, and whether the rest asks for it."""
        places = self.places(settings)
        check_fit(rule, limits, places, self.findings)
        check_least(rule, limits, places, self.findings, keeps_single=fallback)
        check_joined(rule, limits, places, self.findings)
        check_inner_limits(rule, limits, places, self.findings)
        if coalesce:
            check_merging(rule, limits, settings["after"].name.span, self.findings)
        else:
            check_needed_limits(rule, limits, places, self.findings)
        check_proposing(self.written.name.text, rule, self.rules_span(settings), self.findings)
        if fallback:
            self.check_fallback(rule, limits, settings)

    def places(self, settings: dict[str, ast.Field | ast.Block]) -> LimitPlaces:
        """The span of each limit; for a default, the span of the target's name."""
        found = dict.fromkeys(LIMIT_NAMES, self.written.name.span)
        written = settings.get("limits")
        if isinstance(written, ast.Block):
            found |= {limit.name.text: limit.name.span for limit in written.fields}
        return LimitPlaces(found)

    def check_fallback(
        self,
        rule: FusionRule,
        limits: Limits,
        settings: dict[str, ast.Field | ast.Block],
    ) -> None:
        place, name = self.rules_span(settings), self.written.name.text
        check_fallback(name, rule, limits, place, settings["fallback"].name.span, self.findings)

    def check_libraries(
        self,
        rule: FusionRule,
        target: Toolchain,
        settings: dict[str, ast.Field | ast.Block],
    ) -> None:
        name, labels, rules = self.written.name, self.scope.labels, self.rules_span(settings)
        check_libraries(rule, target, name, labels, rules, self.findings)

    def check_native(
        self,
        rule: FusionRule,
        target: Toolchain,
        settings: dict[str, ast.Field | ast.Block],
    ) -> None:
        """Check what concerns only targets without a library."""
        name, rules = self.written.name, self.rules_span(settings)
        check_rule_variants(rule, name, self.scope.variants, rules, self.findings)
        check_code(rule, target, rules, self.findings)
        variants = settings["variants"].name.span if "variants" in settings else rules
        places = Places(name.span, variants, rules, self.scope.lists)
        check_computed(rule, target, places, self.findings, merges="after" in settings)
        if "variants" in settings and "fallback" in settings:
            check_direct(target, variants, settings["fallback"].name.span, self.findings)

    def rules_span(self, settings: dict[str, ast.Field | ast.Block]) -> Span:
        """Where the rule of the target is written."""
        rules = settings["rules"]
        assert isinstance(rules, ast.Field)
        assert rules.value is not None
        return rules.value.span

    def options(self) -> dict[str, Option]:
        found: dict[str, Option] = {}
        for argument in self.written.options:
            if argument.name is None:
                message = "an option of a target needs a name"
                self.findings.error("E0403", argument.value.span, message, 'write `mcpu: "…"`')
        kind = self.written.kind
        for name, written in named_arguments(self.written.options, self.findings).items():
            value = option_value(kind, name, written, self.findings)
            if value is not None:
                found[name] = value
        if check_kind(kind, self.findings):
            unchecked = dict(found)
            for argument in self.written.options:
                if argument.name is not None and argument.name.text in unchecked:
                    value = unchecked.pop(argument.name.text)
                    check_option(kind, argument.name, value, argument.value.span, self.findings)
                    if argument.name.text == "libs":
                        check_libs(argument.value, kind.text, self.findings)
        return found

    def settings(self) -> dict[str, ast.Field | ast.Block]:
        found: dict[str, ast.Field | ast.Block] = {}
        for setting in self.written.settings:
            name = setting.name
            ours = aliases.SETTINGS.get(name.text, name.text)
            if ours not in SETTINGS:
                message = f"unknown setting `{name.text}`"
                hint = option_meant(self.written.kind, name.text) or _known(name.text, SETTINGS)
                self.findings.error("E0501", name.span, message, hint)
            elif ours in found:
                hint = "write `rules union(a, b);`" if ours == "rules" else ""
                self.twice(name, found[ours].name.span, hint)
            else:
                found[ours] = setting
        return found

    def is_misspelt(self, setting: str) -> bool:
        """Whether an unknown setting, which was reported, looks like `setting`."""
        unknown = (s.name.text for s in self.written.settings if s.name.text not in SETTINGS)
        return any(did_you_mean(name, (setting,)) for name in unknown)

    def twice(self, name: ast.Name, first: Span, hint: str = "") -> None:
        note = Note("given here first", first)
        message = f"`{name.text}` is given twice"
        self.findings.error("E0502", name.span, message, hint or "remove one of them", (note,))

    def value(self, setting: ast.Field | ast.Block | None) -> ast.Expression | None:
        """The value of a setting; None if it is absent."""
        match setting:
            case ast.Field(_, value) if not isinstance(value, ast.Duration | ast.Percent | None):
                return value
            case ast.Field(_, ast.Duration(_, span)):
                said = "does not take a duration"
            case ast.Field(_, ast.Percent(_, span)):
                said = "does not take a percentage"
            case ast.Field():
                span, said = setting.name.span, "needs a value"
            case ast.Block() if self.is_whole:  # else its inside was reported
                span, said = setting.name.span, "takes a value, not braces"
            case _:
                return None
        name = setting.name.text
        hint = f"write `{name} {_EXAMPLES.get(name, 8)};`"
        self.findings.error("E0503", span, f"`{name}` {said}", hint)
        return None

    def compiler(self, settings: dict[str, ast.Field | ast.Block]) -> str | None:
        match self.value(settings.get("compiler")):
            case None:
                return None
            case ast.Literal(str() as text, span) if text:
                check_compiler(text, span, self.findings)
                check_device(text, self.written.kind.text, span, self.findings)
                return text
            case other:
                message = "`compiler` must be the name of a backend, in double quotes"
                hint = ""
                if isinstance(other, ast.Name):
                    hint = Hint(f'write `compiler "{other.text}";`', f'"{other.text}"')
                self.findings.error("E0503", other.span, message, hint)
                return None

    def variants(
        self, settings: dict[str, ast.Field | ast.Block], compiler: str | None
    ) -> tuple[str, ...]:
        value = self.value(settings.get("variants"))
        if value is None:
            return ()
        is_native = "compiler" not in settings or compiler == NATIVE
        return check_variants(value, is_native=is_native, findings=self.findings)

    def priority(self, settings: dict[str, ast.Field | ast.Block]) -> int:
        match self.value(settings.get("priority")):
            case None:
                return 0
            case ast.Literal(int() as number) if not isinstance(number, bool):
                return number
            case other:
                message = "`priority` must be a whole number"
                self.findings.error("E0503", other.span, message, "write `priority 10;`")
                return 0

    def rules(self, settings: dict[str, ast.Field | ast.Block]) -> FusionRule | None:
        if "rules" not in settings:
            if self.is_whole and not self.is_misspelt("rules"):
                message = f"target `{self.written.name.text}` has no `rules`"
                hint = f"write `rules {_EXAMPLES['rules']};` in its braces"
                self.findings.error("E0502", self.written.name.span, message, hint)
            return None
        value = self.value(settings["rules"])
        return None if value is None else self.scope.rule(value)

    def limits(self, settings: dict[str, ast.Field | ast.Block]) -> Limits:
        block = self.block(settings, "limits", "max_exits 1")
        found = self.fields(block, LIMIT_NAMES, "limit")
        largest_first = self.alone(found.pop("largest_first", None))
        values = ((name, self.value(limit)) for name, limit in found.items())
        limits = check_limits(((n, v) for n, v in values if v is not None), self.findings)
        return replace(limits, largest_first=largest_first)

    def measure(self, settings: dict[str, ast.Field | ast.Block]) -> Measuring:
        block = self.block(settings, "measure", "repeats 5")
        found = self.fields(block, MEASURES, "setting of `measure`:")
        return check_measuring(found, self.findings)

    def tune(
        self,
        settings: dict[str, ast.Field | ast.Block],
        compiler: str | None,
        variants: tuple[str, ...],
    ) -> Tuning:
        block = self.block(settings, "tune", "trials 64")
        if block is not None and compiler not in (None, NATIVE):
            name = self.written.name.text
            message = f"`{compiler}` makes the kernels of `{name}`, so they cannot be tuned"
            hint = "remove `tune`: it is only for targets whose kernels TVM makes"
            self.findings.error("E0522", block.name.span, message, hint)
        elif block is not None and variants and TUNED not in variants:
            message = f"the variants of `{self.written.name.text}` do not include `{TUNED}`"
            hint = f"write `{TUNED}` among its `variants`, or remove `tune`"
            self.findings.error("E0522", block.name.span, message, hint)
        return check_tuning(self.fields(block, TUNES, "setting of `tune`:"), self.findings)

    def block(
        self, settings: dict[str, ast.Field | ast.Block], name: str, example: str
    ) -> ast.Block | None:
        """A setting in braces; None if there is none, and after reporting that it has no braces."""
        setting = settings.get(name)
        if isinstance(setting, ast.Field):
            hint = f"write `{name} {{ {example}; }}`"
            self.findings.error("E0503", setting.name.span, f"`{name}` needs braces", hint)
            return None
        return setting

    def fields(
        self, block: ast.Block | None, known: tuple[str, ...], what: str
    ) -> dict[str, ast.Field]:
        """The fields in the braces of a setting, by name."""
        found: dict[str, ast.Field] = {}
        for field in () if block is None else block.fields:
            name = field.name
            if name.text not in known:
                hint = _known(name.text, known)
                self.findings.error("E0501", name.span, f"unknown {what} `{name.text}`", hint)
            elif name.text in found:
                self.twice(name, found[name.text].name.span)
            else:
                found[name.text] = field
        return found

    def after(self, settings: dict[str, ast.Field | ast.Block]) -> bool:
        match self.value(settings.get("after")):
            case None:
                return False
            case ast.Application(ast.Name("max_coalesce"), ()):
                return True
            case other:
                hint = Hint("write `after max_coalesce();`")
                if did_you_mean(other.span.text, ("max_coalesce()",)):
                    hint = Hint(hint, "max_coalesce()")
                message = "`after` takes only `max_coalesce()`"
                self.findings.error("E0503", other.span, message, hint)
                return False

    def alone(self, setting: ast.Field | ast.Block | None) -> bool:
        """Whether a setting without a value, such as `fallback;`, is present."""
        if setting is None:
            return False
        if setting != ast.Field(setting.name, None):
            name = setting.name.text
            message = f"`{name}` takes no value"
            self.findings.error("E0503", setting.name.span, message, f"write `{name};`")
        return True


_BLOCKS = {"limits": LIMIT_NAMES, "measure": MEASURES, "tune": TUNES}
"""The settings that stand in the braces of another setting."""


_PLACING = frozenset({"pin", "place", "only", "require"})
"""What others call a placement that gives calls to a target."""

_EXCLUDING = frozenset({"deny", "exclude", "except", "excluded", "forbid", "ignore", "skip"})
"""What others call a placement that forbids calls."""


def _known(name: str, known: Sequence[str]) -> str:
    """What to write instead of an unknown setting `name`, where those in `known` may stand."""
    if name in SETTINGS:
        return f"`{name}` is a setting of the target: write it outside these braces"
    if name in _PLACING:
        return "write `pin op(nn.softmax) to …;` beside the targets"
    if name in _EXCLUDING:
        return "write `forbid op(nn.softmax) on …;` beside the targets"
    for block, inside in _BLOCKS.items():
        if name in inside:
            return f"write it in the braces of `{block}`: `{block} {{ {name} …; }}`"
    return did_you_mean(name, known) or f"there are {listed(known, 'and')}"
