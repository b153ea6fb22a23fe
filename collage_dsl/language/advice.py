"""What a user may have meant who writes as in other languages."""

import re

from collage_dsl.resources import folder

_OTHER_NAMES = {
    **dict.fromkeys(("fp16", "half", "float16_t"), "f16"),
    **dict.fromkeys(("fp32", "float", "single"), "f32"),
    **dict.fromkeys(("fp64", "double"), "f64"),
    **dict.fromkeys(("bfloat", "bfp16"), "bf16"),
    **{f"s{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    "int": "i32",
    "long": "i64",
}
"""What other languages and libraries call dtypes."""

_DEFINITION = re.compile(r"^(?:let|pattern)\s+(\w+)", re.MULTILINE)


def dtype_meant(name: str) -> str:
    """A hint where another language or library calls a dtype so; empty where none does."""
    meant = _OTHER_NAMES.get(name.lower())
    return f"did you mean `{meant}`?" if meant else ""


def function_meant(name: str, functions: tuple[str, ...]) -> str:
    """A hint to write `dtype(x)` for `x.dtype`."""
    value, _, fact = name.partition(".")
    return f"write `{fact}({value})`" if fact in functions else ""


def without_quotes(text: str) -> str:
    """A hint where `text` is a number, or names a dtype."""
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|true|false", text):
        return f"write `{text}`, without quotes"
    return dtype_meant(text)


def import_of(name: str) -> str:
    """A hint to import `name` from the library that ships, where it is defined there."""
    for path in sorted((folder("specs") / "std").glob("*.collage")):
        if name in _DEFINITION.findall(path.read_bytes().decode()):
            return f'write `import "std/{path.name}" only ({name});` above'
    return ""
