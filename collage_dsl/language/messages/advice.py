"""Hints for users who write a name or spelling of another language or library."""

import re
from collections.abc import Container, Iterable, Mapping
from functools import cache

from collage_dsl.graph.operators import operators
from collage_dsl.graph.types import long_dtype, short_dtype
from collage_dsl.language.messages.hints import Hint, did_you_mean, meant_word, write
from collage_dsl.resources import folder
from collage_dsl.source import Source, Span

_OTHER_NAMES = {
    **dict.fromkeys(("fp16", "half", "float16_t"), "f16"),
    **dict.fromkeys(("fp32", "float", "single"), "f32"),
    **dict.fromkeys(("fp64", "double"), "f64"),
    **dict.fromkeys(("bfloat", "bfp16"), "bf16"),
    **dict.fromkeys(("fp8", "f8", "float8", "e4m3"), "f8_e4m3fn"),
    **dict.fromkeys(("fp8_e4m3", "f8_e4m3", "float8_e4m3", "fp8_e4m3fn", "e4m3fn"), "f8_e4m3fn"),
    **dict.fromkeys(("fp8_e5m2", "f8e5m2", "e5m2"), "f8_e5m2"),
    **dict.fromkeys(("fp4", "f4", "float4", "fp4_e2m1", "f4_e2m1", "e2m1"), "f4_e2m1fn"),
    **{f"s{bits}": f"i{bits}" for bits in (4, 8, 16, 32, 64)},
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
    **dict.fromkeys(("mm", "bmm", "batchmatmul"), "matmul"),
    **dict.fromkeys(("conv", "convolution"), "nn.conv2d"),
    **dict.fromkeys(("averagepool", "avgpool"), "nn.avg_pool2d"),
    **dict.fromkeys(("globalaveragepool", "globalavgpool2d"), "nn.adaptive_avg_pool2d"),
    **dict.fromkeys(("transpose", "permute"), "permute_dims"),
    **dict.fromkeys(("gather", "embedding"), "take"),
    **dict.fromkeys(("concatenate", "cat"), "concat"),
    **{f"reduce{name}": name for name in ("max", "mean", "min", "prod", "sum")},
    "batchnormalization": "nn.batch_norm",
    "callpacked": "call_pure_packed",
    **dict.fromkeys(("dot", "dotgeneral"), "matmul"),
    "biasadd": "add",
    "cast": "astype",
    "clamp": "clip",
    "convtranspose": "nn.conv2d_transpose",
    **dict.fromkeys(("div", "truediv"), "divide"),
    "expand": "broadcast_to",
    "floordiv": "floor_divide",
    "globalmaxpool": "max",
    "groupnormalization": "nn.group_norm",
    "instancenormalization": "nn.instance_norm",
    "layernormalization": "nn.layer_norm",
    "maxpool": "nn.max_pool2d",
    "mul": "multiply",
    "neg": "negative",
    "pow": "power",
    **dict.fromkeys(("interpolate", "resize", "upsample"), "image.resize2d"),
    "rmsnormalization": "nn.rms_norm",
    "scaleddotproductattention": "nn.attention",
    "slice": "strided_slice",
    "sub": "subtract",
    "unsqueeze": "expand_dims",
    "view": "reshape",
}
"""Names of Relax operators in Relay, ONNX and PyTorch, in lower case without `_`."""

_OF_PATTERNS = {
    **dict.fromkeys(("wildcard", "any", "anything"), "write `_` for any value"),
    **dict.fromkeys(
        ("isconst", "isconstant", "const", "constant"),
        "a constant is a parameter: `pattern f(x, c: const)`",
    ),
    "isvar": "a value from outside is a parameter: `pattern f(x)`",
    "istuple": "write `(a, b)` for a tuple",
    **dict.fromkeys(
        ("istuplegetitem", "tuplegetitem", "getitem", "getelementat"), "write `s.0` for a field"
    ),
    **dict.fromkeys(
        ("either", "oneof", "anyof", "alternatives", "choice", "orpattern"),
        "write `(nn.relu(x) | exp(x))` for one of several calls",
    ),
    **dict.fromkeys(
        ("", "anyop", "anyoperator", "op", "operator", "anycall"),
        "an operator has a name; `elementwise(x)` is any call of a kind",
    ),
    **dict.fromkeys(("optional", "maybe"), "a call that may be absent is written `nn.relu?(x)`"),
}
"""What the patterns of TVM are made of in Python, in lower case without `_`, and what ours are."""

_OTHER_ATTRIBUTES = {
    **dict.fromkeys(("kernel_size", "kernel_shape", "kernel", "ksize", "window"), ("pool_size",)),
    **dict.fromkeys(("data_layout", "data_format", "format"), ("data_layout", "layout")),
    "layout": ("data_layout",),
    **dict.fromkeys(("dim", "dims", "axis", "axes", "perm"), ("axis", "axes")),
    **dict.fromkeys(("pads", "pad", "auto_pad"), ("padding", "pad_width")),
    **dict.fromkeys(("stride", "dilations"), ("strides", "dilation")),
    **dict.fromkeys(("to", "out_type", "output_dtype"), ("dtype", "out_dtype")),
    **dict.fromkeys(("mode", "interpolation"), ("method", "mode")),
    "eps": ("epsilon",),
    "num_split": ("indices_or_sections",),
}
"""Names of attributes in other libraries, each with those that may be meant."""

_NUMBERS = re.compile(r"-?\d+")

_DEFINITION = re.compile(r"^(?:let|pattern)\s+(\w+)", re.MULTILINE)


def dtype_meant(name: str) -> Hint:
    """A hint if `name` is a dtype of another language or library, else empty."""
    name = name.rpartition(".")[2].lower().removesuffix("_t")
    for spelled in (name, name.replace("_", "")):
        if meant := _OTHER_NAMES.get(spelled) or short_dtype(long_dtype(spelled) or ""):
            return meant_word(meant)
    return Hint("")


def some_dtypes(name: str) -> str:
    """A hint with some dtypes if `name` looks like one, else empty."""
    if not re.fullmatch(r"(?:bf|fp?|float|i|int|u|uint)\d{2,}", name):
        return ""
    return "dtypes are `f32`, `f16`, `bf16`, `i64`, `i32`, `i8`, `u8`, `bool`, …"


def function_meant(name: str, functions: Container[str]) -> Hint:
    """A hint to write `dtype(x)` instead of `x.dtype`, else empty."""
    value, _, fact = name.partition(".")
    fact = _OTHER_FACTS.get(fact, fact)
    return write(f"{fact}({value})") if fact in functions else Hint("")


def method_meant(name: str, argument: str, functions: Container[str]) -> Hint:
    """
    A hint what to write instead of a whole call, if another language has the method `name` for one
    of our facts, else empty. `argument` is the text of its first argument.
    """
    value, _, fact = name.rpartition(".")
    if value and argument and fact in ("shape", "size", "dim"):
        return write(f"dim({value}, {argument})")
    return function_meant(name, functions)


def attribute_meant(name: str, known: Container[str]) -> Hint:
    """A hint if another library calls one of the attributes `known` by `name`, else empty."""
    meant = [each for each in _OTHER_ATTRIBUTES.get(name.lower(), ()) if each in known]
    if not meant and name.lower() in _OF_WINDOWS and "kernel_layout" in known:
        return Hint("the weight has the size of the kernel, as in `dim(w, 2)`")
    return meant_word(meant[0] if meant else "")


_OF_WINDOWS = ("kernel_size", "kernel_shape", "kernel", "ksize")

_OTHER_KINDS = {
    **dict.fromkeys(("elemwise", "kelemwise", "pointwise", "unary"), "elementwise"),
    "kbroadcast": "broadcast",
    "kinjective": "injective",
    **dict.fromkeys(("commreduce", "kcommreduce", "reduction"), "reduce"),
    **dict.fromkeys(("outelemwisefusable", "koutewisefusable", "koutelemwisefusable"), "anchor"),
    **dict.fromkeys(("outewisefusable", "complex"), "anchor"),
    "kopaque": "opaque",
}
"""Names of kinds in TVM and elsewhere, in lower case without `_`."""


def kind_meant(name: str) -> Hint:
    """A hint if `name` is what another library calls a kind of operators, else empty."""
    return meant_word(_OTHER_KINDS.get(_plain(name), ""))


def fact_meant(name: str, argument: str = "") -> Hint:
    """
    A hint if another library has the function `name` for one of our facts, else empty. `argument`
    is the text of its arguments.
    """
    of = argument.partition(",")[0] or "x"
    if name.lower() in ("is_const", "is_constant", "isconst", "constant", "const"):
        return Hint(f"write `{of}: const` among the parameters")
    if name.lower() in ("kind", "op", "operator", "op_name", "is_op"):
        return Hint("a call names its operators or a kind: `(nn.relu | exp)(x)`, `elementwise(x)`")
    if name.lower() in ("range", "between", "xrange") and (ends := _NUMBERS.findall(argument)):
        return Hint(f"write `{ends[0]}..{ends[-1]}`, both ends included")
    if name.lower() == "not":
        return write("not", ", in small letters")
    if name == "layout":
        return Hint('a layout is an attribute: `nn.conv2d(x, w) [data_layout == "NCHW"]`')
    return meant_word(_OTHER_FACTS.get(name, ""))


def operator_meant(name: str) -> Hint:
    """A hint if `name` is an operator of another library or with another prefix, else empty."""
    plain = _plain(name)
    if name.lower().startswith(_ONNX):
        found = [n for n in operators() if n.startswith(_CONTRIBUTED) and _plain(n) == plain]
        return meant_word(found[0] if found else "")
    if plain in ("dense", "linear"):
        what = f"`{name}` transposes its weight"
        return Hint(f"in Relax it is `matmul(x, permute_dims(w))`: {what}")
    if plain == "gemm":
        return Hint("in Relax it is `add(matmul(a, b), c)`")
    if plain in _OF_PATTERNS:
        return Hint(_OF_PATTERNS[plain])
    if meant := _OTHER_OPERATORS.get(plain):
        return Hint(f"in Relax it is `{meant}`", meant)
    return meant_word(_by_plain_name().get(plain, ""))


_ONNX = "onnx."
_CONTRIBUTED = "com.microsoft."
"""Operators of ONNX Runtime, which are not in the standard."""


@cache
def _by_plain_name() -> Mapping[str, str]:
    """Of two operators with the same last part, that with the shortest name."""
    known = sorted((n for n in operators() if not n.startswith(_ONNX)), key=len, reverse=True)
    return {_plain(name): name for name in known}


def _plain(name: str) -> str:
    """The last part of the name of an operator, in lower case without `_`."""
    return name.rpartition(".")[2].lower().replace("_", "")


def operator_without_import(name: str) -> Hint:
    """A hint if `name`, which is imported, is the last part of an operator's name, else empty."""
    found = _by_plain_name().get(_plain(name), "")
    is_same = found.rpartition(".")[2] == name
    return Hint(f"`{found}` is an operator, which is not imported" if is_same else "")


def attribute_of_parameter(name: str, parameters: Container[str], calls: Iterable[str]) -> Hint:
    """A hint if `name` asks a parameter for an attribute, which `calls` have; else empty."""
    value, _, attribute = name.partition(".")
    if not attribute or value not in parameters:
        return Hint("")
    words = f"`{value}` is a parameter, and attributes belong to calls"
    call = next(iter(calls), "")
    return Hint(f"{words}: write `{call}.{attribute}`" if call else words)


def truth_meant(name: str) -> Hint:
    """A hint if `name` is a truth value of another language, else empty."""
    return write(name.lower()) if name.lower() in ("true", "false") else Hint("")


def sort_meant(name: str, parameter: str, dims: str) -> Hint:
    """A hint what to write instead of a parameter with the sort `name` and dimensions `dims`."""
    plain = f"{parameter}: {dims}" if dims else parameter
    dtype = short_dtype(long) if (long := long_dtype(name)) else _OTHER_NAMES.get(name.lower())
    if dtype:
        return Hint(f"write `{plain}`; `where dtype({parameter}) == {dtype};` asks for the dtype")
    if name.lower() in ("optional", "maybe", "opt"):
        return write(f"{parameter}?: {dims}" if dims else f"{parameter}?")
    if name.lower() in ("any", "tensor", "value", "var", "expr"):
        return write(plain, ", which is any value")
    if name.lower() in ("input", "activation", "data", "feature"):
        return write(plain)
    if name.lower() in ("scalar", "number"):
        return Hint(f"write `{parameter}: []`, which has no dimensions")
    if name.lower() in ("weight", "weights", "param", "params", "parameter", "literal"):
        new = f"{parameter}: const & {dims}" if dims else f"{parameter}: const"
        return write(new, ", which is a constant")
    if meant := did_you_mean(name, ("const",)):
        return Hint(meant, f"{parameter}: const & {dims}" if dims else f"{parameter}: const")
    return Hint("there is `const`")


def none_meant(name: str) -> Hint:
    """A hint if `name` is what another language calls `none`, else empty."""
    return meant_word("none" if name.lower() in ("none", "nil", "null", "nullopt") else "")


def no_attribute(name: str) -> str:
    """A hint if `name` is `none`, which only attributes can be, else empty."""
    only = "only attributes, in brackets after a call, are compared with `none`"
    asks = "`has(b)` asks whether an optional `b` is present"
    return f"{only}; {asks}" if name == "none" or none_meant(name) else ""


def without_quotes(text: str) -> Hint:
    """A hint if the string `text` is a number, a truth value, `none` or a dtype, else empty."""
    if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|true|false|none", text):
        return write(text, ", without quotes")
    return dtype_meant(text)


def import_of(name: str) -> Hint:
    """A hint to import `name` if the shipped library `std` defines it, else empty."""
    if not (path := file_of(name)):
        return Hint("")
    statement = f'import "{path}" only ({name});'
    return Hint(f"write `{statement}` above", f"{statement}\n")


def file_of(name: str) -> str:
    """The file of the shipped library `std` that defines `name`; empty if none does."""
    for path in sorted((folder("specs") / "std").glob("*.collage")):
        if name in _DEFINITION.findall(path.read_bytes().decode()):
            return f"std/{path.name}"
    return ""


def imported_already(name: str, source: Source, visible: Iterable[str]) -> Hint:
    """
    A hint if an import of `source` has made `name` visible under another name: with its prefix, or
    after `as`; else empty.
    """
    prefixed = [each for each in visible if each.rpartition(".")[2] == name != each]
    renamed = re.findall(
        rf"^[ \t]*import\b[^;]*[(,]\s*{re.escape(name)}\s+as\s+(\w+)",
        source.text,
        re.MULTILINE,
    )
    found = [*prefixed, *renamed]
    return write(found[0], ", as it is imported") if len(found) == 1 else Hint("")


def import_of_similar(name: str) -> Hint:
    """
    A hint to import what the shipped library `std` defines under almost the same name as the
    operator `name` of another library, else empty.
    """
    for path in sorted((folder("specs") / "std").glob("*.collage")):
        for defined in _DEFINITION.findall(path.read_bytes().decode()):
            if _plain(defined) == _plain(name):
                return Hint(f'write `import "std/{path.name}" only ({defined});` above')
    return Hint("")


def place_of_imports(source: Source) -> Span:
    """The place for another import: after those that `source` has, else after the edition."""
    last = 0
    for found in _HEAD.finditer(source.text):
        last = found.end()
    return Span(source, last, last)


_HEAD = re.compile(
    r"^[ \t]*(?:collage\s+\d+\s*;[^\n]*\n(?:[ \t]*\n)?|import\b[^;]*;[^\n]*\n)", re.MULTILINE
)
"""The edition, with a blank line after it, or an import."""
