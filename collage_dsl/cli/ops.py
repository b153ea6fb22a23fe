"""`collage ops`: show the operators that patterns can name."""

import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.output import show, write
from collage_dsl.graph.operators import TVM_VERSION, Operator, operators
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.printable import json_text


def show_operators(wanted: str, output_format: str) -> None:
    """Show the operators whose names match the glob `wanted`, in alphabetical order."""
    table = operators()
    found = [table[name] for name in sorted(table) if fnmatchcase(name, wanted)]
    if not found:
        said = f"no operator of TVM {TVM_VERSION} or ONNX is named `{wanted}`"
        raise CommandError(f"{said}; {_hint(wanted, table)}")
    if output_format == "json":
        document = {"tvm": TVM_VERSION, "operators": [_row(operator) for operator in found]}
        write(json_text(document))
    else:
        show("".join(f"{line}\n" for line in _lines(found)))


def _hint(wanted: str, names: Iterable[str]) -> str:
    if any(name.startswith(f"{wanted}.") for name in names):
        return f"write '{wanted}.*' for those that begin so"
    if similar := did_you_mean(wanted, names):
        return similar
    anywhere = f"*{wanted.strip('*')}*"
    if wanted and any(fnmatchcase(name, anywhere) for name in names):
        return f"write '{anywhere}' for those that have it in their names"
    return "`collage ops` lists all"


def _lines(found: Iterable[Operator]) -> Iterator[str]:
    for operator in found:
        commutative = ", commutative" if operator.commutative else ""
        yield f"{operator.name}({_signature(operator)})  {operator.kind}{commutative}"
        for name in operator.attrs:
            default = f" = {_value(operator.defaults[name])}" if name in operator.defaults else ""
            yield f"    {name}: {operator.attribute_type(name)}{default}"
        if operator.in_models is not None:
            yield f"    in models: {' and '.join(operator.in_models) or 'removed'}"


def _signature(operator: Operator) -> str:
    """The operands of an operator: `data, <axes>, <strides>?`. Literals are in angle brackets."""
    if operator.operands is None:
        return "…"
    return ", ".join(
        f"<{name}>{shown.removeprefix(name)}" if name in operator.literals else shown
        for name, shown in zip(operator.operands, operator.shown_operands, strict=True)
    )


def _value(value: object) -> str:
    """`value` as in the text notation of graphs."""
    return "none" if value is None else json.dumps(value)


def _row(operator: Operator) -> dict[str, Any]:
    attributes = [
        {
            "name": name,
            "type": type_,
            "may_be_none": name in operator.may_be_none,
            "required": name not in operator.defaults,
            "default": operator.defaults.get(name),
        }
        for name, type_ in operator.attrs.items()
    ]
    return {
        "name": operator.name,
        "operands": None if operator.operands is None else list(operator.operands),
        "optional_operands": operator.optional,
        "literal_operands": list(operator.literals),
        "attributes": attributes,
        "kind": str(operator.kind),
        "commutative": operator.commutative,
        "in_models": None if operator.in_models is None else list(operator.in_models),
    }
