"""
Read the shipped table of Relax operators, with which rules work without TVM.

`scripts/operator_table.py` makes the table from an installed TVM.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from collage_dsl.graph.graph import Attribute, Node
from collage_dsl.graph.types import Form, Kind, TensorType, Type

TVM_VERSION = "0.27"
"""The minor version of TVM that the table describes."""

CALL_TIR = "call_tir"
"""
The operator of a node that calls a PrimFunc. It is not in the table. Its attribute `function` is
the name of the PrimFunc, `op_pattern` its kind, and the value of the node is the PrimFunc itself.
"""

CALL_PURE_PACKED, CALL_DPS_PACKED = "call_pure_packed", "call_dps_packed"
"""
The operators of nodes that call a packed function, which is registered with TVM under the name in
their attribute `function`: one that returns its result, and one that writes it into memory that it
is given. They are not in the table.
"""

PACKED_CALLS = frozenset({CALL_DPS_PACKED, CALL_PURE_PACKED})
FUNCTION_CALLS = PACKED_CALLS | {CALL_TIR}


Taken = Literal["tensor", "tuple", "list", "number", "any"]
"""What an operand is. Lists and numbers are written in the program."""


@dataclass(frozen=True, slots=True)
class RelaxForm:
    """
    What the nodes of an operator of ONNX become in a model, as far as they were tried.

    `ops` has the operators of Relax, without repetitions, of each form, the most frequent one
    first; a node that is computed or removed has none. All tried nodes with these `dtypes`, numbers
    of `operands` and `results`, and any value of `attrs` have a form, except for some with unusual
    `ranks`, if that is true. With as many operands as are in `constants`, some after the first have
    to be constants.
    """

    ops: tuple[tuple[str, ...], ...]
    dtypes: frozenset[str]
    operands: frozenset[int]
    results: frozenset[int]
    attrs: frozenset[str]
    constants: frozenset[int]
    ranks: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """
    One operator: the names of its operands in order, its attributes with the names of their
    types ("int", "float", "bool", "str", "ints", …), and its greatest kind.

    `operands` is None for the few operators that take any number of them. `optional` operands may
    be left out: those in `absent`, or the last ones if it is empty. `literals` are the operands
    that are not tensors: a shape, a bound. `defaults` has the values that TVM gives to omitted
    attributes. `values` has the possible values of string attributes, if they are known. The
    attributes in `may_be_none` can have no value; all others always have one.

    `takes` says what each operand is, and `gives` what a call is: "tensor", "shape", or the number
    of tensors in a tuple. `gives` is None if that depends on attributes, or is not known. An
    operator of ONNX gives at most `most_results` values, as a tuple if several of them are used.
    Operands in `same_dtype` have one dtype, except those that are `bool`; if only one is named,
    it is a tuple whose tensors do. `dtypes` has the operand with the same dtype as each result,
    or in brackets the attribute that says it, or the dtype itself; None if it is not known.
    `axes` has the attributes that name dimensions of the first operand, if TVM refuses others, and
    how many more dimensions they may name: 1 for a new one. `accepts` has the dtypes that an
    operand may have, or in brackets those that an attribute may say, if TVM refuses others.
    `shape` says what the shape of the result of an operator of ONNX is, if it needs no attribute:
    that of the first operand, or that to which all operands are broadcast. `fields` is like
    `dtypes`, or has the dtypes that each result may have, and holds where a node has all results.
    `accepts_all` is like `accepts`, for operands that may be left out, and holds where none is.
    `same_dtypes` has groups of operands with one dtype, also of those that may be left out. Only
    the first `always` operands have the same place in every node. `form` is how models have the
    nodes of an operator of ONNX, if not as they are. Of an operator that is `sized`, all nodes stay
    as they are, and the shapes of what they give follow from those of what they take.
    """

    name: str
    operands: tuple[str, ...] | None
    attrs: Mapping[str, str]
    kind: Kind
    commutative: bool = False
    optional: int = 0
    literals: tuple[str, ...] = ()
    defaults: Mapping[str, Attribute] = field(default_factory=dict, hash=False)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    may_be_none: frozenset[str] = frozenset()
    takes: tuple[Taken, ...] = ()
    gives: Literal["tensor", "shape"] | int | None = None
    same_dtype: tuple[str, ...] = ()
    dtypes: tuple[str | None, ...] = ()
    axes: Mapping[str, int] = field(default_factory=dict, hash=False)
    accepts: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    most_results: int | None = None
    shape: Literal["first", "broadcast"] | None = None
    fields: tuple[str | tuple[str, ...] | None, ...] = ()
    accepts_all: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    same_dtypes: tuple[tuple[str, ...], ...] = ()
    always: int = 0
    absent: tuple[str, ...] = ()
    form: RelaxForm | None = None
    sized: bool = False

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds that calls may have; see `kind_of`."""
        if self.name == CALL_TIR:
            return frozenset(Kind)
        if self.name in _BROADCASTING_CALLS:
            return frozenset({Kind.BROADCAST})
        if self.kind is Kind.BROADCAST or self.name == "strided_slice":
            return frozenset({self.kind, Kind.ELEMENTWISE})
        return frozenset({self.kind})

    @property
    def in_models(self) -> tuple[str, ...] | None:
        """The operators of Relax that models usually have in its place; None if it stays."""
        return self.form.ops[0] if self.form else None

    @property
    def shown_operands(self) -> tuple[str, ...]:
        """The names of the operands in order, with `?` after those that may be left out."""
        names = self.operands or ()
        absent = self.absent or names[len(names) - self.optional :]
        return tuple(f"{name}?" if name in absent else name for name in names)

    def attribute_type(self, name: str) -> str:
        """The type of an attribute, in words: `ints`, or `ints or none`."""
        return f"{self.attrs[name]}{' or none' * (name in self.may_be_none)}"


@cache
def operators() -> Mapping[str, Operator]:
    """
    All operators by name: those of Relax without the `relax.` prefix, and those of ONNX, for nodes
    that have no form in Relax: `onnx.LSTM`, `com.microsoft.FusedGelu`. And the calls of functions
    that are no operators: `call_tir`, `call_pure_packed`, `call_dps_packed`.
    """
    kinds = tuple(kind.name.lower() for kind in Kind)
    call_tir = Operator(
        CALL_TIR,
        None,
        {"function": "str", "op_pattern": "str"},
        Kind.OPAQUE,
        defaults={"op_pattern": "opaque"},
        values={"op_pattern": kinds},
    )
    packed = {
        name: Operator(name, None, {"function": "str"}, Kind.OPAQUE)
        for name in sorted(PACKED_CALLS)
    }
    return {**relax_operators(), **_onnx_operators(), CALL_TIR: call_tir, **packed}


@cache
def relax_operators() -> Mapping[str, Operator]:
    """The operators of Relax by name."""
    path = Path(__file__).with_name(f"operators-{TVM_VERSION}.json")
    table = json.loads(path.read_text("utf-8"))
    return {
        name: Operator(
            name,
            None if row["operands"] is None else tuple(row["operands"]),
            row["attrs"],
            Kind[row["kind"].upper()],
            row["commutative"],
            row["optional"],
            tuple(row["literals"]),
            {attr: _attribute(value) for attr, value in row["defaults"].items()},
            {attr: tuple(values) for attr, values in row.get("values", {}).items()},
            frozenset(row.get("may_be_none", ())),
            tuple(row.get("takes", ())),
            row.get("gives"),
            tuple(row.get("same_dtype", ())),
            tuple(row.get("dtypes", ())),
            row.get("axes", {}),
            {name: tuple(dtypes) for name, dtypes in row.get("accepts", {}).items()},
        )
        for name, row in table["operators"].items()
    }


@cache
def _onnx_operators() -> Mapping[str, Operator]:
    """Operands in the middle that are left out are not counted."""
    path = Path(__file__).with_name("onnx-operators.json")
    table = json.loads(path.read_text("utf-8"))
    return {
        name: Operator(
            name,
            None if row["operands"] is None else tuple(row["operands"]),
            row["attrs"],
            Kind.OPAQUE,
            optional=row["optional"],
            defaults={attr: _attribute(value) for attr, value in row["defaults"].items()},
            values={attr: tuple(values) for attr, values in row.get("values", {}).items()},
            may_be_none=frozenset(row.get("may_be_none", ())),
            same_dtype=tuple(row.get("same_dtype", ())),
            dtypes=tuple(row.get("dtypes", ())),
            accepts={name: tuple(dtypes) for name, dtypes in row.get("accepts", {}).items()},
            most_results=row.get("results"),
            shape=row.get("shape"),
            fields=tuple(_dtypes(said) for said in row.get("fields", ())),
            accepts_all={n: tuple(dtypes) for n, dtypes in row.get("accepts_all", {}).items()},
            same_dtypes=tuple(map(tuple, row.get("same_dtypes", ()))),
            always=row.get("always", 0),
            absent=tuple(row.get("absent", ())),
            form=_form(row["form"]) if "form" in row else None,
            sized=row.get("sized", False),
        )
        for name, row in table["operators"].items()
    }


def _form(row: dict[str, Any]) -> RelaxForm:
    return RelaxForm(
        tuple(map(tuple, row["ops"])),
        frozenset(row["dtypes"]),
        frozenset(row["operands"]),
        frozenset(row["results"]),
        frozenset(row["attrs"]),
        frozenset(row.get("constants", ())),
        row.get("ranks", False),
    )


def _dtypes(said: str | list[str] | None) -> str | tuple[str, ...] | None:
    return tuple(said) if isinstance(said, list) else said


def _attribute(value: Any) -> Attribute:
    """An attribute from JSON, with tuples instead of lists."""
    return tuple(map(_attribute, value)) if isinstance(value, list) else value


@cache
def of_onnx() -> frozenset[str]:
    return frozenset(_onnx_operators())


@cache
def without_code() -> frozenset[str]:
    """The operators of which TVM has no code: those of ONNX, and calls of packed functions."""
    return frozenset(PACKED_CALLS | of_onnx())


def is_commutative(op: str) -> bool:
    """Whether the two operands of `op` may be exchanged."""
    found = operators().get(op)
    return found is not None and found.commutative


def kind_of(
    op: str,
    operand_types: tuple[Type, ...],
    type_: Type,
    values: tuple[object, ...] = (),
    attrs: Mapping[str, Attribute] | None = None,
) -> Kind:
    """
    The kind of a call of `op`; opaque if the table does not know it. `values` are the values of
    literal operands, by position.

    As in TVM, a broadcasting operator whose operands and result all have the same shape is
    elementwise, and so is a slice from the first element with steps of 1; `squeeze` and `one_hot`
    are broadcasts.
    """
    found = operators().get(op)
    if found is None:
        return Kind.OPAQUE
    if op == CALL_TIR:
        return Kind[str((attrs or found.defaults)["op_pattern"]).upper()]
    if op == "strided_slice" and _is_from_the_start(values):
        return Kind.ELEMENTWISE
    if op in _BROADCASTING_CALLS:
        return Kind.BROADCAST
    if found.kind is Kind.BROADCAST and isinstance(type_, TensorType):
        shapes = {t.shape for t in operand_types if isinstance(t, TensorType)}
        if shapes <= {type_.shape} and type_.shape is not None:
            return Kind.ELEMENTWISE
    return found.kind


def literal_values(operands: Iterable[Node]) -> tuple[object, ...]:
    """The values of literal operands, with None for every other operand."""
    return tuple(node.value if node.form is Form.LITERAL else None for node in operands)


_BROADCASTING_CALLS = frozenset({"squeeze", "one_hot"})
"""Injective in the table, but TVM derives broadcast from their loops."""


def _is_from_the_start(values: tuple[object, ...]) -> bool:
    """Whether a slice with these operands begins at 0 and has steps of 1."""
    begin, strides = values[2:3], values[4:]
    return bool(begin) and _is_all(begin[0], 0) and all(_is_all(each, 1) for each in strides)


def _is_all(value: object, number: int) -> bool:
    return isinstance(value, tuple) and all(item == number for item in value)
