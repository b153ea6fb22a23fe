"""Hints for users who write a name or spelling of another language or library."""

import re

from collage_dsl.graph.types import long_dtype, short_dtype
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
"""Names of dtypes in other languages and libraries."""

_OTHER_FACTS = {
    **dict.fromkeys(("ndim", "ndims", "dims", "dim", "len", "length"), "rank"),
    **dict.fromkeys(("element_type", "elem_type", "type"), "dtype"),
    **dict.fromkeys(("numel", "elements"), "size"),
    "nbytes": "bytes",
    "use_count": "uses",
}
"""Names of facts about a value in other libraries."""

_OTHER_OPERATORS = {
    **dict.fromkeys(("dense", "linear", "gemm", "mm", "bmm", "batchmatmul"), "matmul"),
    **dict.fromkeys(("conv", "convolution"), "nn.conv2d"),
    **dict.fromkeys(("averagepool", "avgpool"), "nn.avg_pool2d"),
    **dict.fromkeys(("globalaveragepool", "globalavgpool2d"), "nn.adaptive_avg_pool2d"),
    **dict.fromkeys(("transpose", "permute"), "permute_dims"),
    **dict.fromkeys(("gather", "embedding"), "take"),
    **dict.fromkeys(("concatenate", "cat"), "concat"),
    **{f"reduce{name}": name for name in ("max", "mean", "min", "prod", "sum")},
    "batchnormalization": "nn.batch_norm",
    "biasadd": "add",
    "cast": "astype",
    "clamp": "clip",
    "div": "divide",
    "layernormalization": "nn.layer_norm",
    "maxpool": "nn.max_pool2d",
    "mul": "multiply",
    "neg": "negative",
    "pow": "power",
    "slice": "strided_slice",
    "sub": "subtract",
    "unsqueeze": "expand_dims",
}
"""Names of Relax operators in Relay, ONNX and PyTorch, in lower case without `_`."""

_DEFINITION = re.compile(r"^(?:let|pattern)\s+(\w+)", re.MULTILINE)


def dtype_meant(name: str) -> str:
    """A hint if `name` is a dtype of another language or library, else empty."""
    meant = _OTHER_NAMES.get(name.lower().removesuffix("_t"), "")
    meant = meant or short_dtype(long_dtype(name.lower().removesuffix("_t")) or "")
    return f"did you mean `{meant}`?" if meant else ""


def function_meant(name: str, functions: tuple[str, ...]) -> str:
    """A hint to write `dtype(x)` instead of `x.dtype`, else empty."""
    value, _, fact = name.partition(".")
    fact = _OTHER_FACTS.get(fact, fact)
    return f"write `{fact}({value})`" if fact in functions else ""


def call_meant(name: str, argument: str, functions: tuple[str, ...]) -> str:
    """
    A hint if another language calls the function `name` for one of our facts, else empty.
    `argument` is the text of its first argument.
    """
    value, _, fact = name.rpartition(".")
    if value and argument and fact in ("shape", "size", "dim"):
        return f"write `dim({value}, {argument})`"
    return function_meant(name, functions) or fact_meant(name)


def fact_meant(name: str) -> str:
    """A hint if another library has the function `name` for one of our facts, else empty."""
    if name.lower() == "not":
        return "write `not`, in small letters"
    if name == "layout":
        return 'a layout is an attribute: `nn.conv2d(x, w) [data_layout == "NCHW"]`'
    meant = _OTHER_FACTS.get(name)
    return f"did you mean `{meant}`?" if meant else ""


def operator_meant(name: str) -> str:
    """A hint if `name` is an operator of another library, else empty."""
    meant = _OTHER_OPERATORS.get(name.rpartition(".")[2].lower().replace("_", ""))
    return f"in Relax it is `{meant}`" if meant else ""


def truth_meant(name: str) -> str:
    """A hint if `name` is a truth value of another language, else empty."""
    return f"write `{name.lower()}`" if name.lower() in ("true", "false") else ""


def sort_meant(name: str, parameter: str, dims: str) -> str:
    """A hint what to write instead of the sort `name` of a parameter with the dimensions `dims`."""
    plain = f"{parameter}: {dims}" if dims else parameter
    dtype = short_dtype(long) if (long := long_dtype(name)) else _OTHER_NAMES.get(name.lower())
    if dtype:
        return f"write `{plain}`; `where dtype({parameter}) == {dtype};` asks for the dtype"
    if name.lower() in ("optional", "maybe", "opt"):
        return f"write `{parameter}?`"
    if name.lower() in ("any", "tensor", "value", "var", "expr"):
        return f"write `{plain}`, which is any value"
    return "there is `const`"


def none_meant(name: str) -> str:
    """A hint if `name` is what another language calls `none`, else empty."""
    return "did you mean `none`?" if name.lower() in ("none", "nil", "null", "nullopt") else ""


def no_attribute(name: str) -> str:
    """A hint if `name` is `none`, which only attributes can be, else empty."""
    only = "only attributes, in brackets after a call, are compared with `none`"
    return f"{only}; `has(b)` asks whether an optional `b` is present" if name == "none" else ""


def without_quotes(text: str) -> str:
    """A hint if the string `text` is a number, a truth value, `none` or a dtype, else empty."""
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|true|false|none", text):
        return f"write `{text}`, without quotes"
    return dtype_meant(text)


def import_of(name: str) -> str:
    """A hint to import `name` if the shipped library `std` defines it, else empty."""
    for path in sorted((folder("specs") / "std").glob("*.collage")):
        if name in _DEFINITION.findall(path.read_bytes().decode()):
            return f'write `import "std/{path.name}" only ({name});` above'
    return ""
