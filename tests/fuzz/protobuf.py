"""Random changes to a protobuf message, by its descriptor alone."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

NUMBERS = (0, 1, -1, 2, 3, 7, 16, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "\0", "/", "..", "../../etc/passwd", "é" * 9, "a" * 5000, "9", "n + ", "nan")
SIGNED = {Field.CPPTYPE_INT32: 31, Field.CPPTYPE_INT64: 63}


def mutate(message: Message, chosen: Random, changes: int) -> None:
    """Change `message` in so many places."""
    for _ in range(changes):
        parts = list(parts_of(message))
        part = chosen.choice(parts)
        set_or_not = [field for field, _ in part.ListFields()] or part.DESCRIPTOR.fields
        fields = chosen.choice((set_or_not, set_or_not, part.DESCRIPTOR.fields))
        change_field(part, chosen.choice(fields), parts, chosen)


def parts_of(message: Message) -> Iterator[Message]:
    """`message` and all messages in it."""
    yield message
    for field, value in message.ListFields():
        if field.cpp_type == Field.CPPTYPE_MESSAGE:
            for each in value if field.is_repeated else (value,):
                yield from parts_of(each)


def change_field(message: Message, field: Any, parts: list[Message], chosen: Random) -> None:
    held = getattr(message, field.name)
    if field.cpp_type == Field.CPPTYPE_MESSAGE:
        same = [each for each in parts if each.DESCRIPTOR is field.message_type]
        change_messages(message, field, held, same, chosen)
    elif field.is_repeated:
        change_values(held, field, parts, chosen)
    else:
        setattr(message, field.name, value_of(field, held, parts, chosen))


def change_messages(
    message: Message, field: Any, held: Any, same: list[Message], chosen: Random
) -> None:
    other = type(same[0])() if same else None
    if other is not None:
        other.CopyFrom(chosen.choice(same))
    if not field.is_repeated:
        message.ClearField(field.name)
        if other is not None and chosen.random() < 0.8:
            getattr(message, field.name).CopyFrom(other)
        return
    change: Callable[[], object] = chosen.choice((
        lambda: held and held.pop(chosen.randrange(len(held))),
        lambda: other is not None and held.append(other),
        lambda: held and other and held[chosen.randrange(len(held))].CopyFrom(other),
        lambda: held.sort(key=lambda _: chosen.random()),
    ))  # fmt: skip
    change()


def change_values(held: Any, field: Any, parts: list[Message], chosen: Random) -> None:
    if held and chosen.random() < 0.3:
        held.pop(chosen.randrange(len(held)))
    elif held and chosen.random() < 0.6:
        at = chosen.randrange(len(held))
        held[at] = value_of(field, held[at], parts, chosen)
    else:
        first = held[0] if held else None
        count = chosen.choice((1, 1, 2, 9))
        held.extend(value_of(field, first, parts, chosen) for _ in range(count))


def value_of(field: Any, held: Any, parts: list[Message], chosen: Random) -> Any:
    """Another value for a scalar field, often one that stands somewhere in the message."""
    match field.cpp_type:
        case Field.CPPTYPE_STRING if field.type == Field.TYPE_BYTES:
            return damaged(held or b"", chosen)
        case Field.CPPTYPE_STRING:
            return chosen.choice((*TEXTS, *names_in(parts)))
        case Field.CPPTYPE_FLOAT | Field.CPPTYPE_DOUBLE:
            return chosen.choice(FLOATS)
        case Field.CPPTYPE_ENUM:
            return chosen.choice(field.enum_type.values).number
        case cpp_type:
            number = chosen.choice((*NUMBERS, chosen.randrange(40)))
            bits = SIGNED.get(cpp_type, 32)
            number = min(abs(number), 2**bits - 1)
            return -number if cpp_type in SIGNED and chosen.random() < 0.4 else number


def names_in(parts: list[Message]) -> list[str]:
    return [
        name
        for part in parts
        if part.DESCRIPTOR.name == "NodeProto"
        for name in (*part.input, *part.output)  # type: ignore[attr-defined]
    ]


def damaged(content: bytes, chosen: Random) -> bytes:
    """`content` cut, extended, or with other bytes in some places."""
    match chosen.randrange(4):
        case 0:
            return content[: chosen.randrange(len(content) + 1)]
        case 1:
            return content + chosen.randbytes(chosen.choice((1, 8, 100)))
        case 2:
            at = chosen.randrange(len(content) + 1)
            return content[:at] + chosen.randbytes(chosen.randrange(9)) + content[at:]
    changed = bytearray(content)
    for _ in range(chosen.randrange(1, 5) if content else 0):
        changed[chosen.randrange(len(changed))] = chosen.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(changed)
