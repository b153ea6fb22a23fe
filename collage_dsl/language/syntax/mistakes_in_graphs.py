"""Mistakes in the text of a graph."""

from collage_dsl.language.syntax.mistakes import (
    ARGUMENTS,
    BEGINS,
    DTYPE,
    NAME,
    NUMBER,
    REST,
    Mistake,
    calls,
    signs,
)
from collage_dsl.language.syntax.mistakes_in_patterns import BINARY, UNARY

_NAMES = rf"{NAME}(?:\s*,\s*{NAME})*+"
_TYPE = rf"(?P<type>{DTYPE}\s*\[[^\]]*\])"

MISTAKES = (
    # Inputs and constants.
    Mistake(
        rf"^(?P<name>{NAME})\s*:\s*const\s+",
        rf"{_TYPE}\s*(?P<rest>[^;{{}}]*)",
        "write `{name} = const {type}{rest};`",
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*=\s*{DTYPE}\s*",
        r"",
        "write `{name}: f32[…];` for an input, `{name} = const f32[…];` for a constant",
    ),
    Mistake(
        rf"^(?P<type>{DTYPE})\s*",
        rf"(?P<dims>\[[^\]]*\])\s*(?P<name>{NAME})\s*;",
        "write `{name}: {type}{dims};`",
    ),
    Mistake(
        rf"^(?P<word>{NAME})\s+",
        rf"(?P<name>{NAME})\s*:\s*(?P<rest>[^;{{}}=]*[^;{{}}\s=])\s*;",
        "write `{name}: {rest};`, without `{word}`",
    ),
    Mistake(
        rf":\s*(?P<type>{DTYPE})\s*",
        r"\(\s*(?P<dims>[^()]*[^()\s,])?\s*,?\s*\)",
        "write `{type}[{dims}]`",
    ),
    # Nodes.
    Mistake(
        rf"^(?P<word>{NAME})\s+",
        rf"(?P<name>{NAME})\s*:?=\s*{REST}",
        "write `{name} = {rest};`, without `{word}`",
    ),
    Mistake(rf"^(?P<name>{NAME})\s*:\s*", rf"=\s*{REST}", "write `{name} = {rest};`"),
    Mistake(rf"^(?P<name>{NAME})\s*=", rf"=\s*{REST}", "write `{name} = {rest};`"),
    Mistake(rf"^(?P<name>{NAME})\s*", rf"<-\s*{REST}", "write `{name} = {rest};`"),
    Mistake(
        rf"^return\s+(?P<name>{NAME})\s*",
        rf"(?P<rest>{ARGUMENTS})",
        "write `{free} = {name}{rest};`, then `return {free};`",
    ),
    Mistake(rf"^(?P<name>{NAME})\s*", rf"(?P<rest>{ARGUMENTS})", "write `{free} = {name}{rest};`"),
    Mistake(r"^(?:yield|output|out)\s+", rf"(?P<rest>{_NAMES})\s*;", "write `return {rest};`"),
    Mistake(rf"=\s*(?P<of>{NAME})\s*", r"\[\s*(?P<field>\d+)\s*\](?=\s*;)", "write `{of}.{field}`"),
    # Operands and attributes.
    Mistake(
        rf"\(.*{BEGINS}(?P<name>{NAME})\s*",
        rf"(?P<rest>{ARGUMENTS})",
        "name this value first: write `{free} = {name}{rest};`",
    ),
    Mistake(
        r"[(,]\s*",
        r"\((?P<rest>[^()]*,[^()]*)\)",
        "name the tuple first: write `{free} = ({rest});`",
    ),
    Mistake(
        rf"\[.*{BEGINS}(?P<name>{NAME})\s*=", r"=", "an attribute has a value: write `{name} = …`"
    ),
    Mistake(rf"\[.*{BEGINS}(?P<name>{NAME})\s*", r"(?::=|:)", "write `{name} = …`"),
    Mistake(
        r"\[.*=\s*", r"\(\s*(?P<items>[^()]*[^()\s,])\s*,?\s*\)", "write `[{items}]` for a list"
    ),
    # Signs between values.
    *signs(
        rf"(?P<left>{NAME})\s*",
        calls(BINARY, "{left}, const f32[] {right}"),
        rf"\s*(?P<right>{NUMBER})",
    ),
    *signs(
        rf"(?P<left>{NAME})\s*",
        calls(BINARY, "{left}, {right}"),
        rf"\s*(?P<right>{NAME})(?!\s*\()",
    ),
    *signs(
        "=.*(?P<start>)",
        calls(UNARY, "{right}"),
        rf"\s*(?P<right>{NAME})",
    ),
    Mistake(r"-\s*", rf"(?P<right>{NAME})", "write `negative({right})`"),
    *signs(
        r"=.*[\w)\]]\s*",
        calls(BINARY, "…, …"),
        r"\s*[\w(]",
    ),
)
