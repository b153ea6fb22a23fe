"""Check a `target` block and build its fusion spec."""

from dataclasses import replace

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Measuring, Option, Toolchain, Tuning
from collage_dsl.language import aliases, syntax
from collage_dsl.language.arguments import bind, named_arguments
from collage_dsl.language.compilers import check_compiler
from collage_dsl.language.coverage import check_fallback
from collage_dsl.language.findings import Findings, did_you_mean, listed
from collage_dsl.language.fitting import check_fit
from collage_dsl.language.libraries import NATIVE, check_libraries
from collage_dsl.language.limits import LIMITS, check_limits
from collage_dsl.language.measuring import MEASURES, check_measuring
from collage_dsl.language.rules import RuleScope
from collage_dsl.language.target_kinds import check_kind, check_option, option_value
from collage_dsl.language.tuning import TUNES, check_tuning
from collage_dsl.language.variants import check_direct, check_rule_variants, check_variants
from collage_dsl.rules import FusionRule, FusionSpec, Limits
from collage_dsl.source import Span

SETTINGS = (
    "compiler",
    "variants",
    "priority",
    "rules",
    "limits",
    "measure",
    "tune",
    "after",
    "fallback",
)


def check_target(
    written: syntax.Target, is_whole: bool, scope: RuleScope, findings: Findings
) -> FusionSpec | None:
    """
    The spec of `written`; None after reporting what is wrong in it.

    If a part has a syntax error (not `is_whole`), missing settings are not reported.
    """
    return _TargetChecker(written, is_whole, scope, findings).run()


class _TargetChecker:
    def __init__(
        self, written: syntax.Target, is_whole: bool, scope: RuleScope, findings: Findings
    ) -> None:
        self.written = written
        self.is_whole = is_whole
        self.scope = scope
        self.findings = findings

    def run(self) -> FusionSpec | None:
        errors = self.findings.errors
        if "." in self.written.name.text:
            self.findings.error("E0208", self.written.name.span, "a name has no dots")
        options = self.options()
        settings = self.settings()
        compiler = self.compiler(settings)
        variants = self.variants(settings, compiler)
        priority = self.priority(settings)
        rule = self.rules(settings)
        limits = self.limits(settings)
        measure = self.measure(settings)
        tune = self.tune(settings, compiler)
        coalesce = self.after(settings)
        fallback = self.alone(settings.get("fallback"))
        if rule is None or self.findings.errors > errors:
            return None
        places = self.places(settings)
        check_fit(rule, limits, places, self.findings, keeps_single=fallback)
        if fallback:
            self.check_fallback(rule, limits, settings)
        name, kind = self.written.name.text, self.written.kind.text
        target = Toolchain(name, kind, compiler, options, priority, measure, variants, tune)
        self.check_libraries(rule, target, settings)
        if compiler in (None, NATIVE):
            self.check_native(rule, target, settings)
        return FusionSpec(target, rule, limits, coalesce, fallback)

    def places(self, settings: dict[str, syntax.Field | syntax.Block]) -> dict[str, Span]:
        """The span of each limit; for a default, the span of the target's name."""
        found = dict.fromkeys(LIMITS, self.written.name.span)
        written = settings.get("limits")
        if isinstance(written, syntax.Block):
            found |= {limit.name.text: limit.name.span for limit in written.fields}
        return found

    def check_fallback(
        self,
        rule: FusionRule,
        limits: Limits,
        settings: dict[str, syntax.Field | syntax.Block],
    ) -> None:
        place, name = self.rules_span(settings), self.written.name.text
        check_fallback(name, rule, limits, place, settings["fallback"].name.span, self.findings)

    def check_libraries(
        self,
        rule: FusionRule,
        target: Toolchain,
        settings: dict[str, syntax.Field | syntax.Block],
    ) -> None:
        name, labels, rules = self.written.name, self.scope.labels, self.rules_span(settings)
        check_libraries(rule, target, name, labels, rules, self.findings)

    def check_native(
        self,
        rule: FusionRule,
        target: Toolchain,
        settings: dict[str, syntax.Field | syntax.Block],
    ) -> None:
        """Check what concerns only targets without a library."""
        name, places, rules = self.written.name, self.scope.variants, self.rules_span(settings)
        check_rule_variants(rule, name, places, rules, self.findings)
        if "variants" in settings and "fallback" in settings:
            variants, fallback = (settings[said].name.span for said in ("variants", "fallback"))
            check_direct(target, variants, fallback, self.findings)

    def rules_span(self, settings: dict[str, syntax.Field | syntax.Block]) -> Span:
        """Where the rule of the target is written."""
        rules = settings["rules"]
        assert isinstance(rules, syntax.Field)
        assert rules.value is not None
        return rules.value.span

    def options(self) -> dict[str, Option]:
        found: dict[str, Option] = {}
        for argument in self.written.options:
            if argument.name is None:
                message = "an option of a target has a name"
                self.findings.error("E0403", argument.value.span, message, 'write `mcpu: "…"`')
        kind = self.written.kind
        for name, written in named_arguments(self.written.options, self.findings).items():
            value = option_value(kind, name, written, self.findings)
            if value is not None:
                found[name] = value
        if check_kind(kind, self.findings):
            for argument in self.written.options:
                if argument.name is not None and argument.name.text in found:
                    value = found[argument.name.text]
                    check_option(kind, argument.name, value, argument.value.span, self.findings)
        return found

    def settings(self) -> dict[str, syntax.Field | syntax.Block]:
        found: dict[str, syntax.Field | syntax.Block] = {}
        for setting in self.written.settings:
            name = setting.name
            ours = aliases.SETTINGS.get(name.text, name.text)
            if ours not in SETTINGS:
                message = f"unknown setting `{name.text}`"
                hint = did_you_mean(name.text, SETTINGS) or f"there are {listed(SETTINGS, 'and')}"
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

    def twice(self, name: syntax.Name, first: Span, hint: str = "") -> None:
        note = Note("given here first", first)
        message = f"`{name.text}` is given twice"
        self.findings.error("E0502", name.span, message, hint, notes=(note,))

    def value(self, setting: syntax.Field | syntax.Block | None) -> syntax.Expression | None:
        """The value of a setting; None if it is absent."""
        match setting:
            case syntax.Field(name, syntax.Duration(_, span)):
                self.findings.error("E0503", span, f"`{name.text}` is no time")
            case syntax.Field(name, syntax.Percent(_, span)):
                self.findings.error("E0503", span, f"`{name.text}` is no percentage")
            case syntax.Field(_, value) if not isinstance(
                value, syntax.Duration | syntax.Percent | None
            ):
                return value
            case syntax.Field(name):
                self.findings.error("E0503", name.span, f"`{name.text}` has no value")
            case syntax.Block(name) if self.is_whole:  # else its inside was reported
                message = f"`{name.text}` is set to a value, and has no braces"
                self.findings.error("E0503", name.span, message)
        return None

    def compiler(self, settings: dict[str, syntax.Field | syntax.Block]) -> str | None:
        match self.value(settings.get("compiler")):
            case None:
                return None
            case syntax.Literal(str() as text, span) if text:
                check_compiler(text, span, self.findings)
                return text
            case other:
                message = "`compiler` is the name of a backend, in double quotes"
                hint = f'write `compiler "{other.text}";`' if isinstance(other, syntax.Name) else ""
                self.findings.error("E0503", other.span, message, hint)
                return None

    def variants(
        self, settings: dict[str, syntax.Field | syntax.Block], compiler: str | None
    ) -> tuple[str, ...]:
        value = self.value(settings.get("variants"))
        if value is None:
            return ()
        is_native = "compiler" not in settings or compiler == NATIVE
        return check_variants(value, is_native=is_native, findings=self.findings)

    def priority(self, settings: dict[str, syntax.Field | syntax.Block]) -> int:
        match self.value(settings.get("priority")):
            case None:
                return 0
            case syntax.Literal(int() as number) if not isinstance(number, bool):
                return number
            case other:
                message = "`priority` is a whole number"
                self.findings.error("E0503", other.span, message, "write `priority 10;`")
                return 0

    def rules(self, settings: dict[str, syntax.Field | syntax.Block]) -> FusionRule | None:
        if "rules" not in settings:
            if self.is_whole and not self.is_misspelt("rules"):
                message = f"target `{self.written.name.text}` has no `rules`"
                self.findings.error("E0502", self.written.name.span, message)
            return None
        value = self.value(settings["rules"])
        return None if value is None else self.scope.rule(value)

    def limits(self, settings: dict[str, syntax.Field | syntax.Block]) -> Limits:
        setting = settings.get("limits")
        if isinstance(setting, syntax.Field):
            message = "`limits` stand in braces"
            hint = "write `limits { max_exits 1; }`"
            self.findings.error("E0503", setting.name.span, message, hint)
            return Limits()
        found = self.fields(setting, LIMITS, "limit")
        largest_first = self.alone(found.pop("largest_first", None))
        values = ((name, self.value(limit)) for name, limit in found.items())
        limits = check_limits(((n, v) for n, v in values if v is not None), self.findings)
        return replace(limits, largest_first=largest_first)

    def measure(self, settings: dict[str, syntax.Field | syntax.Block]) -> Measuring:
        setting = settings.get("measure")
        if isinstance(setting, syntax.Field):
            message = "what `measure` says stands in braces"
            hint = "write `measure { repeats 5; }`"
            self.findings.error("E0503", setting.name.span, message, hint)
            return Measuring()
        found = self.fields(setting, MEASURES, "setting of `measure`:")
        return check_measuring(found, self.findings)

    def tune(
        self, settings: dict[str, syntax.Field | syntax.Block], compiler: str | None
    ) -> Tuning:
        setting = settings.get("tune")
        if isinstance(setting, syntax.Field):
            message = "what `tune` says stands in braces"
            self.findings.error("E0503", setting.name.span, message, "write `tune { trials 64; }`")
            return Tuning()
        if setting is not None and compiler not in (None, NATIVE):
            name = self.written.name.text
            message = f"the kernels of `{name}` are made by `{compiler}`, and cannot be tuned"
            hint = "`tune` is for targets whose kernels TVM makes"
            self.findings.error("E0522", setting.name.span, message, hint)
        return check_tuning(self.fields(setting, TUNES, "setting of `tune`:"), self.findings)

    def fields(
        self, block: syntax.Block | None, known: tuple[str, ...], what: str
    ) -> dict[str, syntax.Field]:
        """The fields in the braces of a setting, by name."""
        found: dict[str, syntax.Field] = {}
        for field in () if block is None else block.fields:
            name = field.name
            if name.text not in known:
                hint = did_you_mean(name.text, known) or f"there are {listed(known, 'and')}"
                self.findings.error("E0501", name.span, f"unknown {what} `{name.text}`", hint)
            elif name.text in found:
                self.twice(name, found[name.text].name.span)
            else:
                found[name.text] = field
        return found

    def after(self, settings: dict[str, syntax.Field | syntax.Block]) -> bool:
        match self.value(settings.get("after")):
            case None:
                return False
            case syntax.Application(syntax.Name("max_coalesce")) as written:
                return bind(written, self.findings, takes=(0, 0)) is not None
            case other:
                hint = "write `after max_coalesce();`"
                message = "after the search there is only `max_coalesce()` to do"
                self.findings.error("E0503", other.span, message, hint)
                return False

    def alone(self, setting: syntax.Field | syntax.Block | None) -> bool:
        """Whether a setting without a value, such as `fallback;`, is present."""
        if setting is None:
            return False
        if setting != syntax.Field(setting.name, None):
            name = setting.name.text
            message = f"`{name}` stands alone"
            self.findings.error("E0503", setting.name.span, message, f"write `{name};`")
        return True
