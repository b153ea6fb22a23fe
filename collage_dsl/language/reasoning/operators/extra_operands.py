"""Which attributes are meant by the operands of a call that are too many."""

import re
from collections.abc import Sequence

from collage_dsl.graph.operators import Operator
from collage_dsl.graph.types import long_dtype
from collage_dsl.language.reasoning.operators.attribute_values import stored_length
from collage_dsl.language.syntax.mistakes import shown

_WHOLE = re.compile(r"-?\d++")
_NUMBER = re.compile(r"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?")
_LIST = re.compile(r"[\[(](?P<items>[^\[\]()]*)[\])]")


def as_attributes(operator: Operator, written: Sequence[str], sign: str) -> str:
    """
    The call of `operator` with its last operands as attributes: `topk(x) [k == 5]`. Empty if one
    of them is no attribute.
    """
    taken = len(operator.operands or ())
    attributes: dict[str, str] = {}
    for text in written[taken:]:
        left = [name for name in operator.attrs if name not in attributes]
        fitting = ((name, _value(operator, name, text)) for name in left)
        name, value = next(((name, value) for name, value in fitting if value), ("", ""))
        if text in left:
            name, value = text, "…"
        if not name:
            return ""
        attributes[name] = value
    asked = ", ".join(f"{name} {sign} {value}" for name, value in attributes.items())
    return shown(f"{operator.name}({', '.join(written[:taken])}) [{asked}]")


def _value(operator: Operator, name: str, text: str) -> str:
    """`text` as the value of the attribute `name`; empty if it is none."""
    items = _LIST.fullmatch(text)
    match operator.attrs[name]:
        case "int":
            return text if _WHOLE.fullmatch(text) else ""
        case "float":
            return text if _NUMBER.fullmatch(text) else ""
        case "ints" | "floats" if _WHOLE.fullmatch(text):
            length = stored_length(operator, name) or 1
            return f"[{', '.join([text] * length)}]"
        case "int|ints" if _WHOLE.fullmatch(text):
            return text
        case "ints" | "floats" | "int|ints":
            return f"[{items['items']}]" if items else ""
        case "bool":
            return text.lower() if text.lower() in ("true", "false") else ""
        case "dtype":
            return text if long_dtype(text) else ""
        case "str":
            return text if text.startswith('"') else ""
        case _:
            return ""
