"""
The operators of Relax, from a table shipped with the package, so that rules can be checked
and proposed without TVM. `scripts/operator_table.py` makes the table from an installed TVM.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from collage_dsl.graph.graph import Attribute
from collage_dsl.graph.types import Kind, TensorType, Type

TVM_VERSION = "0.27"
"""The minor version of TVM that the table describes."""


@dataclass(frozen=True, slots=True)
class Operator:
    """
    One operator: the names of its operands in order, its attributes with the names of their
    types ("int", "float", "bool", "str", "ints", …), and its greatest kind.

    `operands` is None for the few operators that take any number of them; the last `optional`
    of them may be left out, and `literals` are those that are no tensors: a shape, a bound.
    `defaults` has the values that TVM gives to attributes that a caller leaves out, `values` those
    that an attribute which is a string can have, where they are known.
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


@cache
def operators() -> Mapping[str, Operator]:
    """All operators by name, without the `relax.` prefix."""
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
        )
        for name, row in table["operators"].items()
    }


def _attribute(value: Any) -> Attribute:
    """What JSON has as a list is a tuple."""
    return tuple(map(_attribute, value)) if isinstance(value, list) else value


def is_commutative(op: str) -> bool:
    """Whether the two operands of `op` may be exchanged."""
    found = operators().get(op)
    return found is not None and found.commutative


def kind_of(op: str, operand_types: tuple[Type, ...], type_: Type) -> Kind:
    """
    The kind of a call of `op`; opaque where the table does not know it.

    A broadcasting operator whose operands and result all have one shape is elementwise,
    as TVM has it.
    """
    found = operators().get(op)
    if found is None:
        return Kind.OPAQUE
    if found.kind is Kind.BROADCAST and isinstance(type_, TensorType):
        shapes = {t.shape for t in operand_types if isinstance(t, TensorType)}
        if shapes <= {type_.shape} and type_.shape is not None:
            return Kind.ELEMENTWISE
    return found.kind
