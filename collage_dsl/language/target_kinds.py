"""Check the kind and the options of a target against those of TVM."""

from collage_dsl.graph.operators import TVM_VERSION
from collage_dsl.graph.target_kinds import target_kinds
from collage_dsl.language import syntax
from collage_dsl.language.findings import Findings, did_you_mean, listed

_MEANT = {"cpu": "llvm", "x86": "llvm", "arm_cpu": "llvm", "gpu": "cuda", "nvidia": "cuda"}
_TYPES = {"int": "a whole number", "bool": "`true` or `false`", "str": "a string"}


def check_kind(kind: syntax.Name, findings: Findings) -> bool:
    """Whether TVM has targets of that kind; reports that it has none."""
    kinds = target_kinds()
    if kind.text in kinds:
        return True
    meant = _MEANT.get(kind.text.lower())
    hint = f"did you mean `{meant}`?" if meant else did_you_mean(kind.text, kinds)
    hint = hint or f"there are {listed(kinds, 'and')}"
    message = f"TVM {TVM_VERSION} has no targets of kind `{kind.text}`"
    findings.warning("W0540", kind.span, message, hint)
    return False


def check_option(
    kind: syntax.Name, name: syntax.Name, value: syntax.Literal, findings: Findings
) -> None:
    """Report an option that TVM would refuse. `num_cores` means TVM's `num-cores`."""
    known = {option.replace("-", "_"): type_ for option, type_ in target_kinds()[kind.text].items()}
    type_ = known.get(name.text)
    if type_ is None:
        hint = did_you_mean(name.text, known) or f"there are {listed(sorted(known), 'and')}"
        message = f"TVM {TVM_VERSION} knows no option `{name.text}` of {kind.text} targets"
        findings.warning("W0541", name.span, message, hint)
    elif type(value.value).__name__ != type_:
        findings.warning("W0541", value.span, f"`{name.text}` is {_TYPES[type_]} to TVM")
