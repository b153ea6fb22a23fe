"""The syntax of a file before names are resolved. Each part has its span."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from collage_dsl.rules.placement import Action
from collage_dsl.source import Span

if TYPE_CHECKING:
    from collage_dsl.language.syntax import graph_ast


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


# Expressions: conditions, rules, and the values of settings.


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, `true` or `false`."""

    value: bool | int | float | str
    span: Span


@dataclass(frozen=True, slots=True)
class List:
    items: tuple["Expression", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """`value`, or `name: value`."""

    name: Name | None
    value: "Expression"


@dataclass(frozen=True, slots=True)
class Application:
    """`function(arguments)`."""

    function: Name
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Arrow:
    """`left -> right`."""

    left: Name
    right: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Operation:
    """`left operator right`; `not` has no left side."""

    operator: str
    left: "Expression | None"
    right: "Expression"
    span: Span


@dataclass(frozen=True, slots=True)
class Elements:
    """`strides[*]`: each element of an attribute."""

    of: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Index:
    """`padding[0]`: one element of an attribute; a negative index counts from the end."""

    of: Name
    index: int
    span: Span


@dataclass(frozen=True, slots=True)
class Near:
    """`a ~= b`, `a ~= b within 1e-3`."""

    left: "Expression"
    right: "Expression"
    within: Literal | None
    span: Span


@dataclass(frozen=True, slots=True)
class Range:
    """`1..4`, both ends included."""

    least: int | float
    most: int | float
    span: Span


Expression = (
    Name | Elements | Index | Range | Literal | List | Application | Arrow | Operation | Near
)


# Patterns.


@dataclass(frozen=True, slots=True)
class Number:
    """`0.5`, or approximately: `~0.7071` or `~0.7071 within 1e-3`."""

    value: float
    approximate: bool
    span: Span
    within: "Literal | None" = None


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """
    `(nn.relu | nn.gelu)?(t) [axis == 1]`. `operators` are names, unless the text is wrong.
    """

    operators: tuple["Operand", ...]
    optional: bool
    operands: tuple["Operand", ...]
    attributes: tuple[Expression, ...]
    span: Span
    modifiers: tuple[Name, ...] = ()
    """`ordered`, `shared`."""


@dataclass(frozen=True, slots=True)
class TupleOf:
    """`(a, b)`"""

    fields: tuple["Operand", ...]
    span: Span


@dataclass(frozen=True, slots=True)
class FieldOf:
    """`s.0`"""

    of: "Operand"
    index: int
    span: Span


@dataclass(frozen=True, slots=True)
class Repeat:
    """`repeat[1..6] act(x)`"""

    least: int
    most: int
    call: OperatorCall
    span: Span


@dataclass(frozen=True, slots=True)
class TupleOfEach:
    """`each[2..8] act(_)`"""

    least: int
    most: int
    field: "Operand"
    span: Span


@dataclass(frozen=True, slots=True)
class PathFrom:
    """`path[1..6] elementwise from k`. `operators` are names, unless the text is wrong."""

    least: int
    most: int
    operators: tuple["Operand", ...]
    origin: "Operand"
    span: Span


@dataclass(frozen=True, slots=True)
class Either:
    """`(nn.relu(x) | add(x, b))`"""

    choices: tuple["Operand", ...]
    span: Span


Operand = (
    Name | Number | OperatorCall | TupleOf | TupleOfEach | FieldOf | Repeat | PathFrom | Either
)


@dataclass(frozen=True, slots=True)
class Excluded:
    """`not nn.relu`, `not (activation | const)`"""

    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Parameter:
    """`x`, `w: const`, `b?: const`, `x: [n, 16]`, `w: const & [n, c]`, `x: not nn.relu`."""

    name: Name
    optional: bool
    tag: Name | Excluded | None
    dims: "Dims | None" = None


@dataclass(frozen=True, slots=True)
class Dims:
    """`[n, 16, _]`, `[.., n]`"""

    items: tuple[Name | Literal, ...]
    """A `..` is a name."""
    span: Span


@dataclass(frozen=True, slots=True)
class Binding:
    name: Name
    value: Operand


@dataclass(frozen=True, slots=True)
class Where:
    condition: Expression
    reason: str


@dataclass(frozen=True, slots=True)
class Taps:
    """`taps none;` or `taps allowed;`"""

    value: Name


@dataclass(frozen=True, slots=True)
class Anchor:
    """`anchor k;`"""

    name: Name


@dataclass(frozen=True, slots=True)
class Yield:
    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Pattern:
    name: Name
    parameters: tuple[Parameter, ...]
    statements: tuple["PatternStatement", ...]
    span: Span


PatternStatement = Binding | Where | Taps | Anchor | Yield


# Rules, targets and files.


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
    """`"nn.conv2d": 1ms;`, in seconds."""

    operators: str
    seconds: float


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
