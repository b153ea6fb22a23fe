"""
Explain the words of the language.

Rules, primitives, functions and questions are explained by the docstrings of their classes.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from inspect import getdoc

from collage_dsl.graph.operators import operators
from collage_dsl.graph.types import dtype_names, long_dtype
from collage_dsl.graph.variants import NATIVE_VARIANTS
from collage_dsl.language.resolve import questions
from collage_dsl.language.syntax import aliases
from collage_dsl.rules import KindPair, condition
from collage_dsl.rules.rule_functions import (
    KIND_PAIR,
    PRIMITIVE_NAMES,
    PRIMITIVES,
    RULES,
    primitive_text,
)

_PRIMITIVE_RULE = (
    "`primitive(rule)` proposes what `rule` proposes: each candidate is one kernel, which every "
    "target implies."
)
"""The meaning of the only rule function that has no class."""

_QUESTIONS: Mapping[str, type] = {
    "matches": questions.Matches,
    "why_not": questions.WhyNot,
    "candidates": questions.Candidates,
    "proposes": questions.Proposes,
    "kernels": questions.Kernels,
    "target_of": questions.TargetOf,
}

_LIMITS = {
    "max_exits": "How many nodes of a candidate may be used outside it: a number, or `any`. "
    "It is 1 where nothing is said.",
    "max_depth": "How many operator calls the longest path inside a candidate may have. "
    "Constants, tuples and projections add none.",
    "max_nodes": "How many operator calls a candidate may have.",
    "taps": "Whether an exit may also feed a node inside: `none` (as where nothing is said) or "
    "`allowed`.",
    "min_nodes": "How many operator calls a candidate has to have. In a target with `fallback;` "
    "a single call is kept all the same.",
    "largest_first": "Of candidates that overlap only the largest is kept, then the earlier: "
    "`largest_first;` among the limits of a target, `largest_first: true` in `only_valid`. In a "
    "target with `fallback;` a single call is kept all the same.",
    "max_regions": "Of what `largest_first` would keep, only so many of the largest are kept. In "
    "a target with `fallback;` a single call is kept all the same.",
    "max_candidates": "How many candidates a rule may add to those of the rules in it. It stops "
    "there, and says so. Where nothing is said, it is 10 000, and 10 for each node of the model.",
}

_TEXTS: Mapping[str, Mapping[str, str]] = {
    "rule": {
        "one_of": "`one_of(nn.relu, nn.gelu)` is a class of operators: called in a pattern, it "
        "matches a call of any of them.",
    },
    "kind": {
        "elementwise": "Each element of the result depends on one element of each operand, at "
        "the same place: `nn.relu`, `exp`.",
        "broadcast": "Elementwise, once operands are broadcast to one shape: `add`, `multiply`.",
        "injective": "Each element of the result is one of an operand, anywhere: `reshape`, "
        "`permute_dims`, `concat`.",
        "reduce": "Elements of the result are made of many of the operand: `sum`, `max`.",
        "anchor": "An operator such as `nn.conv2d` or `matmul`, to which elementwise operators "
        "can be fused.",
        "opaque": "An operator that is fused with nothing: `topk`, `sort`.",
    },
    "setting": {
        "compiler": 'The backend that builds the kernels, in quotes: `compiler "onnxruntime";`. '
        "TVM itself, where there is none.",
        "variants": "The algorithms that may compute kernels of the target: "
        "`variants [direct, winograd4];`, or all but some: `variants not [gemm];`. All of them "
        "where nothing is said.",
        "rules": "The rule that proposes the kernels of the target. Every target has one.",
        "limits": "What every candidate of the target keeps to: `limits { max_exits 1; }`.",
        "measure": "How kernels of the target are timed: `measure { repeats 5; timeout 30s; }`.",
        "tune": "How kernels of the target are tuned: `tune { trials 64; }`.",
        "after": "`after max_coalesce();` lets touching kernels of the target be one, "
        "where that is not slower.",
        "fallback": "The target has a kernel for every operator, so that each model can be "
        "covered.",
        "priority": "A whole number, 0 where nothing is said: of plans that cost the same, the one "
        "with more calls in targets of high priority is chosen.",
    },
    "variant": {name: f"A variant: {text}." for name, text in NATIVE_VARIANTS.items()},
    "limit": _LIMITS,
    "measure": {
        "repeats": "How often a kernel is timed at most; the default is 50.",
        "percentile": "Which percentile of its times is the cost of a kernel, from 0 (the "
        "shortest) to 100; 20 where nothing is said.",
        "budget": "After this time no run of a kernel is begun, but three are always made: "
        "`budget 2s;`. It is 300ms where nothing is said.",
        "timeout": "A kernel that is not built and timed within this time is refused: "
        "`timeout 30s;`. Where nothing is said, the timeout of the command counts.",
        "runs": "`runs often;` (the default): when a kernel begins, its data is where a run of the "
        "model leaves it. `runs rarely;`: all data is in memory.",
        "noise_margin": "How exactly a cost must be known. Runs are repeated until then, and costs "
        "that differ by less count as equal: `noise_margin 2%;` (the default).",
    },
    "tune": {
        "trials": "How many schedules TVM tries for each kernel that may make a model faster: "
        "`trials 64;`. The default is none.",
    },
    "argument": {
        **_LIMITS,
        "using": "The primitives that say which touching candidates are joined: `tvm_default`, "
        "or a list of primitives.",
        "max_splits": "How many cuts of a largest region its parts may be made by: 0, 1 or 2.",
        "ops": "The operators that are asked about, all where it is left out.",
        "max": "How many siblings may become one kernel.",
        "prologue": "The greatest kind of what is joined before the anchor, or `none`.",
        "epilogue": "The greatest kind of what is joined after the anchor, or `none`.",
        "at": "The node to ask at, by its name in the graph.",
        "nodes": "How many operator calls the match has.",
    },
    "modifier": {
        "ordered": "The operands are matched in this order alone, though the operator is "
        "commutative.",
        "flat": "Calls of the operator in any order and grouping match, and their constants "
        "together.",
        "shared": "The result may also be used outside the match.",
    },
    "taps": {
        "none": "A value inside is used inside only.",
        "allowed": "Values inside may be used outside too.",
        "any": "No limit.",
    },
    "sort": {
        "const": "The operand is a constant of the model, which is bound inside the candidate.",
    },
    "keyword": {
        "collage": "The edition of the language that the file is in, on its first line.",
        "import": '`import "std/activations.collage" as act;`, or '
        '`import "…" only (relu6, swish as s);`. Files are looked for beside this one, in the '
        "folders of `path` in `[tool.collage]`, and among the specs that ship.",
        "not": "`not uses(x) > 1` holds where the condition after `not` is false. "
        "`x: not nn.relu` is an operand that is no result of the operator or class.",
        "let": "`let act = one_of(nn.relu, nn.gelu);` names a class of operators.",
        "pattern": "A sub-graph to match: its operands, the calls between them, and the value "
        "that they lead to.",
        "rule": "A name for a rule: what proposes candidates for kernels.",
        "target": "A toolchain, and the rule that says which kernels it can run.",
        "test": "A small graph (or a model), and what is expected of patterns, rules and plans "
        "on it. `collage test` runs it.",
        "where": '`where dim(w, 0) % 16 == 0 else "the reason";`: a condition for a match.',
        "anchor": "`anchor k;`: the main operator of the pattern. The others are fused to it.",
        "yield": "The value that the pattern computes; several, where it has several results.",
        "expect": "`expect matches(p, at: y) == 1;`: what has to hold.",
        "graph": "A graph in the text notation: `x: f32[1, 8]; y = nn.relu(x); return y;`.",
        "model": '`model "file.onnx";`: the graph of an ONNX file.',
        "costs": '`costs { tvm { "*": 10us; } }`: prices of kernels by operator, for plans.',
        "each": "`each[2..8] act(_)`: a tuple of so many fields, each of which matches `act(_)`.",
        "path": "`path[1..6] elementwise from k`: a value that is computed from `k` by so many "
        "calls of a class alone.",
        "repeat": "`repeat[1..6] act(x)`: a call of what it calls, so many times in a row.",
    },
}


@lru_cache(maxsize=4096)
def meaning(group: str, text: str, owners: tuple[str, ...] = ()) -> str:
    """The meaning of `text` as a word of `group`, in Markdown; empty if it is not one."""
    match group:
        case "operator":
            return _operator(text) if text in operators() else ""
        case "attribute":
            return _attribute(text, owners)
        case "dtype":
            long = long_dtype(text)
            return f"The dtype `{long}`." if long else ""
        case "primitive":
            return _primitive(text)
        case "rule" if function := RULES.get(aliases.RULES.get(text, text)):
            return _docstring(function.made) if function.made else _PRIMITIVE_RULE
        case "function" if text in condition.FUNCTIONS:
            return _docstring(condition.FUNCTIONS[text])
        case "question" if text in _QUESTIONS:
            return _docstring(_QUESTIONS[text])
    return _TEXTS.get(group, {}).get(text, "")


def has_meaning(group: str, text: str, owners: tuple[str, ...] = ()) -> bool:
    return bool(meaning(group, text, owners))


def words(group: str) -> tuple[str, ...]:
    """All words of `group`; for attributes none, since they depend on the operator."""
    match group:
        case "operator":
            return tuple(operators())
        case "dtype":
            return dtype_names()
        case "primitive":
            return PRIMITIVE_NAMES
        case "rule":
            return (*RULES, *_TEXTS[group])
        case "function":
            return tuple(condition.FUNCTIONS)
        case "question":
            return tuple(_QUESTIONS)
    return tuple(_TEXTS.get(group, {}))


def signature(name: str) -> str:
    """The operands of an operator: `nn.relu(data)`, `take(x, indices)`."""
    operator = operators()[name]
    if operator.operands is None:
        return f"{name}(…)"
    return f"{name}({', '.join(operator.shown_operands)})"


def attribute_type(operator: str, name: str) -> str:
    """The type of an attribute and its default value: `ints = [1, 1]`."""
    found = operators()[operator]
    if name not in found.defaults:
        return found.attribute_type(name)
    return f"{found.attribute_type(name)} = {_value(found.defaults[name])}"


def _operator(name: str) -> str:
    operator = operators()[name]
    lines = [signature(name)]
    lines += [f"  {attribute}: {attribute_type(name, attribute)}" for attribute in operator.attrs]
    said = [f"Kind: `{operator.kind}`"]
    if operator.commutative:
        said.append("commutative: its operands match in either order")
    if operator.literals:
        listed = ", ".join(f"`{literal}`" for literal in operator.literals)
        said.append(f"written in the program, never computed: {listed}")
    if operator.in_models is not None:
        have = " and ".join(f"`{op}`" for op in operator.in_models) or "nothing"
        said.append(f"models usually have {have} in its place")
    return f"{_code(lines)}\n\n{'; '.join(said)}."


def _attribute(name: str, owners: tuple[str, ...]) -> str:
    known = [owner for owner in owners if owner in operators() and name in operators()[owner].attrs]
    lines = [f"{owner} [{name}]: {attribute_type(owner, name)}" for owner in known]
    return _code(lines) if lines else ""


def _primitive(name: str) -> str:
    if name == KIND_PAIR:
        return _docstring(KindPair)
    found = PRIMITIVES.get(name, ())
    if len(found) == 1:
        return _docstring(type(found[0]))
    parts = ", ".join(f"`{primitive_text(primitive)}`" for primitive in found)
    return f"`{name}`: {parts}." if parts else ""


def _docstring(documented: type) -> str:
    """The docstring of a class as Markdown; indented lines are an example."""
    example = r"(?m)^    (?:.+)(?:\n    .+)*"
    return re.sub(example, lambda found: _code(_dedented(found[0])), getdoc(documented) or "")


def _dedented(text: str) -> list[str]:
    return [line.removeprefix("    ") for line in text.splitlines()]


def _code(lines: list[str]) -> str:
    return "\n".join(["```collage", *lines, "```"])


def _value(value: object) -> str:
    """`value` as in the text notation of graphs."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
    return str(value)
