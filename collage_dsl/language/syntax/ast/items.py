"""Rules, targets, and all else that a file has at its top level."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from collage_dsl.language.syntax.ast.expressions import Application, Argument, Expression, Name
from collage_dsl.language.syntax.ast.patterns import Pattern
from collage_dsl.rules.placement import Action
from collage_dsl.source import Span

if TYPE_CHECKING:
    from collage_dsl.language.syntax import graph_ast


@dataclass(frozen=True, slots=True)
class Rule:
    """`rule name = …;`, or with parameters, `rule name(p, label) = …;`"""

    name: Name
    value: Expression
    parameters: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class Duration:
    """`300ms`, in seconds."""

    seconds: float
    span: Span


@dataclass(frozen=True, slots=True)
class Percent:
    """`2.5%`, as a part of 1."""

    part: float
    span: Span


@dataclass(frozen=True, slots=True)
class Field:
    """`name value;`"""

    name: Name
    value: Expression | Duration | Percent | None


@dataclass(frozen=True, slots=True)
class Block:
    """`name { fields }`"""

    name: Name
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Target:
    name: Name
    kind: Name
    options: tuple[Argument, ...]
    settings: tuple[Field | Block, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Let:
    """`let name = one_of(…);`"""

    name: Name
    value: Expression


@dataclass(frozen=True, slots=True)
class Model:
    """`model "file.onnx";`"""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class Price:
    """`"nn.conv2d": 1ms;`, in seconds. `span` is that of the operators."""

    operators: str
    seconds: float
    span: Span


@dataclass(frozen=True, slots=True)
class TargetCosts:
    """`tvm { "*": 10us; }`"""

    target: Name
    prices: tuple[Price, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    targets: tuple[TargetCosts, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Expect:
    expectation: Expression


@dataclass(frozen=True, slots=True)
class Test:
    """`test "what holds" { graph { … } expect …; }`"""

    name: str
    statements: "tuple[graph_ast.Graph | Model | Costs | Expect, ...]"
    name_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class Imported:
    """`name`, or `name as visible`."""

    name: Name
    visible: Name


@dataclass(frozen=True, slots=True)
class Import:
    """
    `import "path" as prefix;`, or without a prefix `import "path" only (names);`. `is_table` is
    for `import pattern_table "cutlass" …;`.
    """

    path: str
    prefix: Name | None
    names: tuple[Imported, ...]
    span: Span
    is_table: bool = False


@dataclass(frozen=True, slots=True)
class Predicate:
    """`extern predicate fits(x, w) from "package.module:function";`"""

    name: Name
    parameters: tuple[Name, ...]
    source: str
    source_span: Span


@dataclass(frozen=True, slots=True)
class Placement:
    """`pin name("/head/*") to tvm because "accuracy";`, `forbid op(nn.softmax) on lib;`"""

    action: Action
    selector: Application
    target: Name
    because: str


Item = Import | Let | Predicate | Pattern | Rule | Target | Placement | Test


@dataclass(frozen=True, slots=True)
class Broken:
    """A statement with a syntax error, and the name it would have defined, if recognizable."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class File:
    items: tuple[Item, ...]
    broken: tuple[Broken, ...]
