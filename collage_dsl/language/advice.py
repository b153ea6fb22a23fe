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

_OTHER_FACTS = {
    **dict.fromkeys(("ndim", "ndims", "dims", "dim"), "rank"),
    **dict.fromkeys(("element_type", "elem_type", "type"), "dtype"),
    **dict.fromkeys(("numel", "elements"), "size"),
    "nbytes": "bytes",
    "use_count": "uses",
}
"""What other libraries call the facts about a value."""

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
"""What Relay, ONNX and PyTorch call operators of Relax, in small letters without `_`."""

_DEFINITION = re.compile(r"^(?:let|pattern)\s+(\w+)", re.MULTILINE)


def dtype_meant(name: str) -> str:
    """A hint where another language or library calls a dtype so; empty where none does."""
    meant = _OTHER_NAMES.get(name.lower())
    return f"did you mean `{meant}`?" if meant else ""


def function_meant(name: str, functions: tuple[str, ...]) -> str:
    """A hint to write `dtype(x)` for `x.dtype`."""
    value, _, fact = name.partition(".")
    fact = _OTHER_FACTS.get(fact, fact)
    return f"write `{fact}({value})`" if fact in functions else ""


def fact_meant(name: str) -> str:
    """A hint where another library asks for a fact with the function `name`."""
    if name == "layout":
        return 'a layout is an attribute: `nn.conv2d(x, w) [data_layout == "NCHW"]`'
    meant = _OTHER_FACTS.get(name)
    return f"did you mean `{meant}`?" if meant else ""


def operator_meant(name: str) -> str:
    """A hint where another library calls an operator so; empty where none does."""
    meant = _OTHER_OPERATORS.get(name.rpartition(".")[2].lower().replace("_", ""))
    return f"in Relax it is `{meant}`" if meant else ""


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
