"""Check the kind and the options of a target against those of TVM."""

import re

from collage_dsl.graph import Option
from collage_dsl.graph.operators import TVM_VERSION
from collage_dsl.graph.target_kinds import processors, target_kinds
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.messages.hints import Hint, closest, did_you_mean, meant_word, write
from collage_dsl.language.reasoning.findings.list_items import check_twice
from collage_dsl.language.syntax import ast
from collage_dsl.source import Span

_MEANT = {"cpu": "llvm", "x86": "llvm", "arm_cpu": "llvm", "gpu": "cuda", "nvidia": "cuda"}
_TYPES = {
    "int": "a whole number",
    "bool": "`true` or `false`",
    "str": "a string",
    "list": "a list of strings",
}


_WORDS = {"true": ("true", "1", "yes", "on"), "false": ("false", "0", "no", "off")}


def check_kind(kind: ast.Name, findings: Findings) -> bool:
    """Whether TVM has targets of that kind; reports that it has none."""
    kinds = target_kinds()
    if kind.text in kinds:
        return True
    meant = _MEANT.get(kind.text.lower())
    hint: str = meant_word(meant) if meant else did_you_mean(kind.text, kinds)
    hint = hint or f"there are {listed(kinds, 'and')}"
    message = f"TVM {TVM_VERSION} has no targets of kind `{kind.text}`"
    findings.warning("W0540", kind.span, message, hint)
    return False


def option_value(
    kind: ast.Name, name: str, written: ast.Expression, findings: Findings
) -> Option | None:
    """The value of an option of a target; None where `written` is none, which is reported."""
    match written:
        case ast.Literal(value):
            return value
        case ast.List():
            return _strings(name, written, findings)
    message = f"`{name}` must be a number, a string, `true` or `false`"
    hint: str = write(f'"{written.text}"') if isinstance(written, ast.Name) else ""
    if _options(kind).get(name) == "list":
        named = written.text if isinstance(written, ast.Name) else "…"
        message, hint = f"`{name}` must be a list of strings", _bracketed(name, named)
    findings.error("E0404", written.span, message, hint)
    return None


def _strings(name: str, written: ast.List, findings: Findings) -> tuple[str, ...] | None:
    found: list[str] = []
    strings = [item for item in written.items if isinstance(item, ast.Literal)]
    check_twice([(item.value, item.span) for item in strings], findings)
    for item in written.items:
        match item:
            case ast.Literal(str() as text):
                found.append(text)
            case _:
                message = f"each item of `{name}` must be a string in double quotes"
                findings.error("E0404", item.span, message)
    return tuple(found) if len(found) == len(written.items) else None


def check_option(
    kind: ast.Name, name: ast.Name, value: Option, span: Span, findings: Findings
) -> None:
    """Report an option that TVM would refuse; `num_cores` stands for `num-cores`."""
    known = _options(kind)
    type_ = known.get(name.text)
    if type_ is None:
        hint: str = did_you_mean(name.text, known) or f"there are {listed(sorted(known), 'and')}"
        message = f"TVM {TVM_VERSION} has no option `{name.text}` for {kind.text} targets"
        findings.warning("W0541", name.span, message, hint)
    elif prefix := _lacks_prefix(kind.text, name.text, value):
        message = f"TVM needs `{prefix}` before the number of `{name.text}`"
        number = _NUMBER.search(str(value))
        hint = write(f'"{prefix}{number[0]}"') if number else ""
        findings.warning("W0541", span, message, hint)
    elif type_ != ("list" if isinstance(value, tuple) else type(value).__name__):
        hint = _of_type(type_, name.text, value)
        findings.warning("W0541", span, f"TVM needs {_TYPES[type_]} for `{name.text}`", hint)
    elif type(value) is int and value < 1 and _is_count(name.text):
        findings.warning("W0541", span, f"`{name.text}` is at least 1")
    elif kind.text == "llvm":
        _check_processor(name.text, value, span, findings)


def _check_processor(name: str, value: Option, span: Span, findings: Findings) -> None:
    """Report what LLVM would not understand of a processor, and ignore."""
    if name == "mcpu" and value not in processors():
        meant = closest(str(value), processors())
        hint: str = Hint(f"did you mean `{meant}`?", f'"{meant}"') if meant else ""
        hint = hint or "without `mcpu`, code is for the processor of the machine that compiles"
        findings.warning("W0541", span, f"LLVM knows no processor `{value}`", hint)
    if name == "mattr" and isinstance(value, tuple):
        for each in value:
            if not each.startswith(("+", "-")):
                message = f"LLVM takes `{each}` for `-{each}`: code without these instructions"
                findings.warning("W0541", span, message, f'write `"+{each}"` or `"-{each}"`')
            elif each.startswith("+") and f"-{each[1:]}" in value:
                message = f"`{each}` asks for the instructions that `-{each[1:]}` excludes"
                findings.warning("W0541", span, message, "remove one of them")


def _lacks_prefix(kind: str, name: str, value: Option) -> str:
    """The letters that TVM needs before a number, such as `sm_` in `sm_90`; empty if none lack."""
    prefix = _PREFIXES.get((kind, name), "")
    is_number = type(value) is int or isinstance(value, str)
    return prefix if is_number and not str(value).startswith(prefix) else ""


_PREFIXES = {("cuda", "arch"): "sm_", ("rocm", "mcpu"): "gfx"}

_NUMBER = re.compile(r"[0-9]+[a-z]*$")
"""The number at the end of an architecture, with the letter that may follow it: `90a`."""


def _is_count(option: str) -> bool:
    """Whether an option is a number of cores or threads, or the most that a device has of them."""
    return option in ("num_cores", "thread_warp_size") or option.startswith("max_")


def option_meant(kind: ast.Name, setting: str) -> str:
    """A hint for a setting that is an option of the kind; empty if it is none."""
    if setting not in _options(kind):
        return ""
    return f"`{setting}` is an option: write `on {kind.text}({setting}: …)`"


def _of_type(type_: str, name: str, value: Option) -> str:
    """A hint to write `value` as TVM needs it; empty if it cannot be written so."""
    said = str(value).strip()
    match type_:
        case "list":
            return _bracketed(name, said)
        case "int" if said.isdecimal():
            return write(said)
        case "bool":
            word = next((word for word, same in _WORDS.items() if said.lower() in same), "")
            return write(word) if word else ""
        case "str" if not isinstance(value, tuple):
            return write(f'"{said}"')
        case _:
            return ""


def _bracketed(name: str, said: str) -> str:
    """A hint to write `cudnn,cublas` as a list."""
    strings = ", ".join(f'"{each.strip()}"' for each in said.split(","))
    return f"write `{name}: [{strings}]`"


def _options(kind: ast.Name) -> dict[str, str]:
    """The options of a kind and their types; none of a kind that is not known."""
    options = target_kinds().get(kind.text, {})
    return {option.replace("-", "_"): type_ for option, type_ in options.items()}
