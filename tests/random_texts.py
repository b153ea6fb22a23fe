"""Random patterns as text, with attributes, dimensions, dtypes, ranks, values and arithmetic."""

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

from collage_dsl.graph.operators import operators

UNARY = ("nn.relu", "exp", "tanh", "abs", "negative", "logical_not", "elementwise")
BINARY = ("add", "multiply", "subtract", "divide", "maximum", "greater", "broadcast")
REDUCING = ("sum", "mean", "max", "argmax")
DTYPES = ("f32", "f16", "i8", "i32", "i64", "u8", "bool", "bf16")
RARE_DTYPES = ("f64", "f8_e4m3fn", "f8_e5m2", "f4_e2m1fn", "i4", "u4", "u32")
SIZES = ("1", "2", "3", "4", "8", "16", "48")
COMPARED = ("==", "==", "!=", "<", "<=", ">", ">=")
AXES = ("0", "1", "-1", "2", "-2")
NAMES = ("s", "t")
"""Names of numbers in lists."""

CALLED = {
    "dense": (
        "pattern dense(x, w: const, b?: const) {\n  u = matmul(x, w);\n"
        "  o = nn.relu?(add?(u, b));\n  where dim(w, 1) % 4 == 0;\n  yield o;\n}\n"
    ),
    "halved": "pattern halved(x) {\n  e = exp(x);\n  o = multiply(e, 0.5);\n  yield o;\n}\n",
    "gated": (
        "pattern gated(x, g?) {\n  o = (nn.relu(x) | multiply(x, sigmoid(g)));\n"
        "  where not has(g) or shape(g) == shape(x);\n  yield o;\n}\n"
    ),
    "summed": (
        "pattern summed(x: [.., 4]) {\n  o = sum(x) [axis == [-1]];\n"
        "  where dtype(x) in [f32, f16, i32];\n  yield o;\n}\n"
    ),
}
"""Patterns that others call."""


@dataclass(slots=True)
class _Writing:
    """A pattern that is being written."""

    random: Random
    parameters: dict[str, str] = field(default_factory=dict)
    """What is said of each parameter."""
    tensors: list[str] = field(default_factory=list)
    """Names that an operator may take."""
    constants: list[str] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    """The names whose value is a call, and its operator."""
    numbers: list[str] = field(default_factory=list)
    """Names of numbers in lists."""
    called: dict[str, str] = field(default_factory=dict)
    """The patterns that are called."""

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def chance(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    # Operands.

    def parameter(self, said: str = "") -> str:
        name = "abcdefghijklm"[len(self.parameters)]
        is_constant = not said and self.chance(4)
        dims = self.chance(5)
        words = [said] if said else []
        words += ["const"] if is_constant else []
        words += [self.dims()] if dims else []
        if not words and self.chance(8):
            excluded = ("nn.relu", "(exp | const)", "reduce", "const", "(add | elementwise)")
            words.append(f"not {self.one_of(*excluded)}")
        if is_constant:
            self.constants.append(name)
        self.parameters[name] = " & ".join(words)
        self.tensors.append(name)
        return name

    def dims(self) -> str:
        count = self.random.randint(0, 4)
        dims = [self.one_of("_", "_", "n", "m", "k", *SIZES[:5]) for _ in range(count)]
        if dims and self.chance(5):
            dims[self.random.randrange(len(dims))] = ".."
        return f"[{', '.join(dims)}]"

    def tensor(self) -> str:
        if len(self.parameters) < 12 and (not self.tensors or self.chance(2)):
            return self.parameter()
        if self.chance(6):
            numbers = ("0.5", "2", "~0.7", "0", "~0.33 within 2e-2", "-inf", "1e-6")
            return self.one_of("_", self.one_of(*numbers))
        return str(self.one_of(*self.tensors))

    def some(self, texts: list[str]) -> str:
        """Conditions on attributes, or none."""
        chosen = [text for text in texts if self.chance(4)]
        return f" [{', '.join(chosen[:2])}]" if chosen else ""

    def number(self, *numbers: str) -> str:
        return str(self.one_of(*numbers))

    # Calls.

    def value(self) -> str:
        forms = ["unary"] * 4 + ["binary"] * 5 + ["matmul"] * 2 + ["reduce"] * 2 + ["conv"] * 2
        forms += ["pool", "softmax", "permute", "reshape", "concat", "split", "norm", "expand"]
        forms += ["squeeze", "where", "take", "cast", "repeat", "path", "each", "either", "slice"]
        forms += ["quantize", "pad", "cumsum", "tuple_field", "optional", "optional", "attention"]
        forms += ["list", "list", "bounds", "flat", "tir", "onnx", "called", "called", "kind"]
        forms += ["moved", "moved", "picked", "image", "weighed", "function"]
        return str(getattr(self, f"write_{self.one_of(*forms)}")())

    def write_unary(self) -> str:
        return f"{self.one_of(*UNARY)}({self.tensor()})"

    def write_binary(self) -> str:
        ordered = " ordered" if self.chance(8) else ""
        return f"{self.one_of(*BINARY)}({self.tensor()}, {self.tensor()}){ordered}"

    def write_matmul(self) -> str:
        asked = self.some(["out_dtype == f32", "out_dtype != f16"])
        return f"matmul({self.tensor()}, {self.tensor()}){asked}"

    def write_reduce(self) -> str:
        axis = self.one_of("[0]", "[1]", "[-1]", "[0, 1]", "[2, 3]", "none")
        asked = self.some([f"axis == {axis}", f"keepdims == {self.one_of('true', 'false')}"])
        op = self.one_of(*REDUCING)
        if op == "argmax":
            asked = self.some([f"axis == {self.one_of(*AXES)}", "keepdims == true"])
        return f"{op}({self.tensor()}){asked}"

    def write_conv(self) -> str:
        size = self.number("1", "2", "3")
        asked = [
            f"strides == [{size}, {size}]",
            f"strides[*] in 1..{size}",
            f"strides[0] > {size}",
            f"padding == [{size}, {size}, {size}, {size}]",
            f"padding[{self.one_of(0, 1, -1)}] >= {size}",
            "padding[0] == padding[2]",
            f"groups {self.one_of('==', '>', '!=')} {size}",
            f"dilation == [{size}, 1]",
            f"data_layout == {self.one_of(*LAYOUTS)}",
            "out_dtype == f32",
        ]
        return f"nn.conv2d({self.tensor()}, {self.tensor()}){self.some(asked)}"

    def write_pool(self) -> str:
        size = self.number("1", "2", "3")
        asked = [
            f"pool_size == [{size}, {size}]",
            f"pool_size[*] > {size}",
            f"strides[*] <= {size}",
            f"padding[*] == {size}",
            "ceil_mode == true",
            "layout == " + self.one_of(*LAYOUTS),
        ]
        op = self.one_of("nn.max_pool2d", "nn.avg_pool2d")
        return f"{op}({self.tensor()}){self.some(asked)}"

    def write_softmax(self) -> str:
        return f"nn.softmax({self.tensor()}){self.some([f'axis == {self.one_of(*AXES)}'])}"

    def write_permute(self) -> str:
        axes = self.one_of("[1, 0]", "[0, 2, 1]", "[0, 2, 1, 3]", "[0, 2, 3, 1]", "none")
        asked = self.some([f"axes == {axes}", f"axes != {axes}"])
        return f"permute_dims({self.tensor()}){asked}"

    def write_reshape(self) -> str:
        op = self.one_of("reshape", "broadcast_to")
        return f"{op}({self.tensor()}, _)"

    def write_concat(self) -> str:
        fields = ", ".join(self.tensor() for _ in range(self.one_of(2, 2, 3)))
        op = self.one_of("concat", "concat", "stack")
        return f"{op}(({fields})){self.some([f'axis == {self.one_of(*AXES)}'])}"

    def write_split(self) -> str:
        sections = self.one_of("2", "3", "[2]", "[1, 3]")
        asked = self.some([f"axis == {self.one_of(*AXES)}", f"indices_or_sections == {sections}"])
        return f"(split({self.tensor()}){asked}).{self.one_of(0, 1)}"

    def write_norm(self) -> str:
        if self.chance(2):
            operands = ", ".join(self.tensor() for _ in range(5))
            asked = self.some([f"axis == {self.one_of(0, 1)}"])
            return f"(nn.batch_norm({operands}){asked}).0"
        operands = ", ".join(self.tensor() for _ in range(3))
        asked = self.some([f"axes == {self.one_of('[-1]', '[1]', '[2, 3]', '[0]')}"])
        return f"nn.layer_norm({operands}){asked}"

    def write_expand(self) -> str:
        asked = self.some([f"axis == {self.one_of('[0]', '[-1]', '[0, 1]', '[2]')}"])
        return f"expand_dims({self.tensor()}){asked}"

    def write_squeeze(self) -> str:
        asked = self.some([f"axis == {self.one_of('[0]', '[-1]', '[0, 1]', 'none')}"])
        return f"squeeze({self.tensor()}){asked}"

    def write_where(self) -> str:
        return f"where({self.tensor()}, {self.tensor()}, {self.tensor()})"

    def write_take(self) -> str:
        asked = self.some([f"axis == {self.one_of(*AXES, 'none')}"])
        return f"take({self.tensor()}, {self.tensor()}){asked}"

    def write_cast(self) -> str:
        dtype = self.one_of(*DTYPES)
        return f"astype({self.tensor()}){self.some([f'dtype == {dtype}', f'dtype != {dtype}'])}"

    def write_repeat(self) -> str:
        low = self.one_of(0, 1, 2)
        of = self.one_of("nn.relu({})", "add({}, _)", "matmul({}, _)", "(exp | tanh)({})")
        return f"repeat[{low}..{low + 1}] {of.format(self.tensor())}"

    def write_path(self) -> str:
        low = self.one_of(0, 1, 2)
        of = self.one_of("elementwise", "(exp | add)", "broadcast", "injective", "reduce")
        return f"path[{low}..{low + 2}] {of} from {self.tensor()}"

    def write_each(self) -> str:
        low = self.one_of(1, 2, 3)
        of = self.one_of("nn.relu(_)", f"add({self.tensor()}, _)", "_", "matmul(_, _)")
        return f"concat(each[{low}..{low + 1}] {of})"

    def write_either(self) -> str:
        return f"({self.write_unary()} | {self.write_binary()})"

    def write_slice(self) -> str:
        return f"strided_slice({self.tensor()}, _, _, _)"

    def write_quantize(self) -> str:
        op = self.one_of("quantize", "dequantize")
        dtype = self.one_of("i8", "u8", "f32", "f16")
        asked = self.some([f"out_dtype == {dtype}", f"axis == {self.one_of(*AXES)}"])
        return f"{op}({self.tensor()}, {self.tensor()}, {self.tensor()}){asked}"

    def write_pad(self) -> str:
        widths = self.one_of("[0, 1, 0, 1]", "[0, 0, 0, 0, 1, 1, 1, 1]", "[1, 1]")
        return f"nn.pad({self.tensor()}){self.some([f'pad_width == {widths}'])}"

    def write_cumsum(self) -> str:
        asked = self.some([f"axis == {self.one_of(*AXES, 'none')}"])
        return f"cumsum({self.tensor()}){asked}"

    def write_tuple_field(self) -> str:
        return f"(({self.tensor()}, {self.tensor()})).{self.one_of(0, 1)}"

    def write_optional(self) -> str:
        name = self.parameter()
        self.tensors.remove(name)
        self.optional.append(name)
        return f"{self.one_of('add', 'multiply')}?({self.tensor()}, {name})"

    def write_attention(self) -> str:
        operands = ", ".join(self.tensor() for _ in range(3))
        asked = ["causal_mask == none", 'causal_mask in [none, "TopLeft"]', "scale == none"]
        return f"nn.attention({operands}){self.some(asked)}"

    def write_list(self) -> str:
        op = self.one_of("reshape", "reshape", "broadcast_to", "image.resize2d")
        if op == "image.resize2d":
            return f"{op}({self.tensor()}, [{self.item()}, {self.item()}])"
        items = [self.item() for _ in range(self.random.randint(0, 4))]
        if items and self.chance(5):
            items[self.random.randrange(len(items))] = ".."
        return f"{op}({self.tensor()}, [{', '.join(items)}])"

    def item(self) -> str:
        item = str(self.one_of("_", "_", *NAMES, *SIZES[:5]))
        if item in NAMES:
            self.numbers.append(item)
        return item

    def write_bounds(self) -> str:
        begin, end = self.one_of("[0]", "[1]", "_", "[s]"), self.one_of("_", "[2]", "[4]", "[-1]")
        if begin == "[s]":
            self.numbers.append("s")
        steps = self.one_of("_", "[1]", "[2]")
        return f"strided_slice({self.tensor()}, [{self.one_of(*AXES)}], {begin}, {end}, {steps})"

    def write_flat(self) -> str:
        operands = [self.tensor() for _ in range(self.one_of(2, 3))]
        operands += [self.one_of("0.5", "2", "~0.7")] if self.chance(2) else []
        return f"{self.one_of('add', 'multiply', 'maximum')}({', '.join(operands)}) flat"

    def write_tir(self) -> str:
        kinds = '["elementwise", "broadcast"]'
        asked = ['function == "f"', f"op_pattern in {kinds}", 'op_pattern == "reduce"']
        operands = ", ".join(self.tensor() for _ in range(self.one_of(1, 2)))
        return f"call_tir({operands}){self.some(asked)}"

    def write_function(self) -> str:
        op = self.one_of("call_pure_packed", "call_dps_packed")
        return f'{op}({self.tensor()}) [function in ["acme.f", "acme.g"]]'

    def write_onnx(self) -> str:
        one = ("onnx.Celu", "onnx.Det", "onnx.LpNormalization", "onnx.Hardmax")
        op = self.one_of(*one, "onnx.MatMul", "onnx.Gemm")
        if op in one[:2]:
            asked = ["alpha == 1.0", "alpha > 0"] if op == "onnx.Celu" else []
            return f"{op}({self.tensor()}){self.some(asked)}"
        if op in one:
            return f"{op}({self.tensor()}){self.some([f'axis == {self.one_of(*AXES)}'])}"
        asked = ["transA == 1", "alpha == 0.5"] if op == "onnx.Gemm" else []
        return f"{op}({self.tensor()}, {self.tensor()}){self.some(asked)}"

    def write_called(self) -> str:
        name = self.one_of(*CALLED)
        self.called[name] = CALLED[name]
        if name == "dense":
            form = self.one_of(
                "dense({}, _, _)",
                "repeat[1..2] dense({}, _, _)",
                "concat(each[1..2] dense({}, _, _))",
            )
        else:
            others = ", _" if name == "gated" else ""
            form = self.one_of(f"{name}({{}}{others})", f"{name}?({{}}{others})")
        return str(form).format(self.tensor())

    def write_kind(self) -> str:
        form = self.one_of(
            *("reduce({})", "injective({})", "anchor({}, {})", "opaque({})", "anchor({})"),
            *("(exp | tanh)({})", "(add | multiply)({}, {})", "elementwise({}, {})"),
        )
        return str(form).format(self.tensor(), self.tensor())

    def write_moved(self) -> str:
        op = self.one_of("flip", "sort", "argsort", "tile", "repeat", "triu", "nn.batch_flatten")
        axis = self.some([f"axis == {self.one_of(*AXES)}"])
        more = {
            "tile": self.some([f"repeats == {self.one_of('[2]', '[2, 1]', '[1, 3]')}"]),
            "repeat": self.some(
                [f"repeats == {self.one_of(1, 2)}", f"axis == {self.one_of(*AXES)}"]
            ),
            "nn.batch_flatten": "",
            "triu": "",
        }
        operands = f"{self.tensor()}{', 0' * (op == 'triu')}"
        return f"{op}({operands}){more.get(op, axis)}"

    def write_picked(self) -> str:
        op = self.one_of("topk", "one_hot", "gather_elements", "scatter_elements", "ewise_fma")
        axis = self.some([f"axis == {self.one_of(*AXES)}"])
        match op:
            case "topk":
                asked = self.some([f"k == {self.one_of(1, 2, 8)}", f"axis == {self.one_of(*AXES)}"])
                return f"(topk({self.tensor()}){asked}).{self.one_of(0, 1)}"
            case "one_hot":
                return f"one_hot({self.tensor()}, 1, 0){self.some(['depth == 4', 'axis == 0'])}"
            case "gather_elements":
                return f"{op}({self.tensor()}, {self.tensor()}){axis}"
            case _:
                operands = ", ".join(self.tensor() for _ in range(3))
                return f"{op}({operands}){axis if op == 'scatter_elements' else ''}"

    def write_image(self) -> str:
        op = self.one_of(
            *("nn.conv1d", "nn.conv2d_transpose", "nn.pixel_shuffle", "nn.adaptive_avg_pool2d"),
            *("nn.avg_pool1d", "nn.conv3d"),
        )
        match op:
            case "nn.pixel_shuffle":
                return f"{op}({self.tensor()}){self.some(['upscale_factor == 2'])}"
            case "nn.adaptive_avg_pool2d":
                return f"{op}({self.tensor()}){self.some(['output_size == [1, 1]'])}"
            case "nn.avg_pool1d":
                return f"{op}({self.tensor()}){self.some(['pool_size == [2]', 'strides == [2]'])}"
            case _:
                asked = self.some(["groups == 2", "strides[0] == 2", "padding[*] == 1"])
                return f"{op}({self.tensor()}, {self.tensor()}){asked}"

    def write_weighed(self) -> str:
        op = self.one_of("nn.rms_norm", "nn.group_norm", "nn.instance_norm", "nn.dropout", "std")
        match op:
            case "nn.rms_norm":
                return f"{op}({self.tensor()}, {self.tensor()}){self.some(['axes == [-1]'])}"
            case "nn.dropout":
                return f"({op}({self.tensor()})).{self.one_of(0, 1)}"
            case "std":
                return f"std({self.tensor()}){self.some(['axis == [-1]', 'keepdims == true'])}"
            case _:
                operands = ", ".join(self.tensor() for _ in range(3))
                asked = ["channel_axis == 1"] + ["num_groups == 2"] * (op == "nn.group_norm")
                return f"{op}({operands}){self.some(asked)}"

    # Conditions.

    def about_call(self) -> str:
        """A condition on an attribute of a call."""
        name = self.one_of(*self.calls)
        operator = operators()[self.calls[name]]
        attribute = self.one_of(*operator.attrs)
        asked = f"{name}.{attribute}"
        match operator.attrs[attribute]:
            case "bool":
                return f"{asked} == {self.one_of('true', 'false')}"
            case "int" | "float":
                return f"{asked} {self.one_of(*COMPARED)} {self.one_of(0, 1, 2)}"
            case "ints":
                return f"{asked}{self.one_of('[0]', '[*]', '[-1]')} {self.one_of('==', '>')} 1"
            case "dtype":
                return f"{asked} == {self.one_of(*DTYPES)}"
            case _:
                return f"rank({name}) >= 1"

    def condition(self, depth: int = 1) -> str:
        if depth and self.chance(4):
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return f"({left}) {self.one_of('and', 'or')} ({right})"
        if depth and self.chance(10):
            return f"not ({self.condition(depth - 1)})"
        if self.optional and self.chance(6):
            return f"{self.one_of('', 'not ')}has({self.one_of(*self.optional)})"
        if self.constants and self.chance(3):
            return self.about_elements()
        if self.calls and self.chance(8):
            return self.about_call()
        if self.numbers and self.chance(3):
            number, other = self.one_of(*self.numbers), self.one_of(*self.numbers, *SIZES)
            return str(
                self.one_of(
                    f"{number} {self.one_of(*COMPARED)} {other}",
                    f"{number} % {self.one_of('2', '16')} == 0",
                    f"{number} * 2 == dim({self.one_of(*self.tensors)}, -1)",
                )
            )
        name, other = self.one_of(*self.tensors), self.one_of(*self.tensors)
        compared, size = self.one_of(*COMPARED), self.one_of(*SIZES)
        dim, beside = (f"dim({n}, {self.one_of(*AXES)})" for n in (name, other))
        dtypes = ", ".join(dict.fromkeys(self.one_of(*DTYPES) for _ in range(2)))
        return str(
            self.one_of(
                f"dtype({name}) {self.one_of('==', '!=')} {self.one_of(*DTYPES)}",
                f"dtype({name}) in [{dtypes}]",
                f"dtype({name}) {self.one_of('==', '!=')} {self.one_of(*RARE_DTYPES)}",
                f"dtype({name}) {self.one_of('==', '!=')} dtype({other})",
                f"rank({name}) {compared} {self.one_of(0, 1, 2, 3, 4)}",
                f"rank({name}) {compared} rank({other})",
                f"rank({name}) == rank({other}) + 1",
                f"rank({name}) in {self.one_of('1..2', '2..4', '[2, 4]')}",
                f"{dim} {compared} {size}",
                f"{dim} % {self.one_of('2', '4', '16', '3')} == {self.one_of('0', '0', '1')}",
                f"{dim} {compared} {beside}",
                f"{dim} == {beside} * {size}",
                f"{dim} + {beside} {compared} {size}",
                f"{dim} / {self.one_of('2', '4')} == {size}",
                f"shape({name}) {self.one_of('==', '!=')} shape({other})",
                f"shape({name}) == [{size}, {self.one_of(*SIZES)}]",
                f"size({name}) {compared} {self.one_of('16', '64', '4096')}",
                f"bytes({name}) {self.one_of('<=', '>=', '%')} {self.one_of('64', '4096')}".replace(
                    "% 64", "% 64 == 0"
                ).replace("% 4096", "% 4096 == 0"),
                f"uses({name}) {self.one_of('==', '<=', '>=')} {self.one_of(1, 2)}",
            )
        )

    def about_elements(self) -> str:
        name, other = self.one_of(*self.constants), self.one_of(*self.constants)
        compared = self.one_of(*COMPARED)
        number = self.one_of("0", "1", "0.5", "127", "-1")
        return str(
            self.one_of(
                f"value({name}) {compared} {number}",
                f"value({name}) in [0, 128]",
                f"value({name}) ~= value({other}) * 2",
                f"min({name}) {compared} {number}",
                f"max({name}) {compared} {number}",
                f"max({name}) - min({name}) {self.one_of('==', '>', '<=')} {number}",
                f"all({name} {compared} {number})",
                f"all({name} in -2..2)",
                f"all({name} == 0 or place({name}, 1) > place({name}, 0))",
                f"all({name} {compared} place({name}, {self.one_of(0, -1)}))",
                f"all({name} ~= {other})",
            )
        )


LAYOUTS = ('"NCHW"', '"NHWC"')

_CALL = re.compile(r"([a-z][\w.]*)\([^?|]*\)(?: \[[^?|]*\])?$")
"""A call of an operator, and its name."""


def text_of(random: Random) -> str:
    """A file with the pattern `p`, which may be wrong."""
    writing = _Writing(random)
    equations: dict[str, str] = {}
    for at in range(random.randint(1, 4)):
        equations[f"v{at}"] = value = writing.value()
        operator = operators().get(found[1]) if (found := _CALL.match(value)) else None
        if operator is not None and operator.attrs:
            writing.calls[f"v{at}"] = operator.name
        writing.tensors += [f"v{at}"] * 2
    needed = _needed(equations)
    for names in (writing.tensors, writing.constants, writing.optional):
        names[:] = [name for name in dict.fromkeys(names) if name in needed]
    writing.calls = {name: op for name, op in writing.calls.items() if name in needed}
    text = " ".join(value for name, value in equations.items() if name in needed)
    writing.numbers[:] = [name for name in NAMES if re.search(rf"\b{name}\b", text)]
    conditions = [f"  where {writing.condition()};" for _ in range(random.randint(0, 2))]
    parameters = ", ".join(
        f"{name}{'?' * (name in writing.optional)}{f': {said}' * bool(said)}"
        for name, said in writing.parameters.items()
        if name in needed
    )
    written = [f"  {name} = {value};" for name, value in equations.items() if name in needed]
    last = list(equations)[-1]
    inner = [name for name in equations if name in needed and name != last]
    results = [last, writing.one_of(*inner)] if inner and writing.chance(8) else [last]
    taps = ["  taps allowed;"] if writing.chance(10) else []
    body = "\n".join([*written, *taps, *conditions, f"  yield {', '.join(results)};"])
    called = "".join(text for name, text in writing.called.items() if name in " ".join(written))
    return f"collage 1;\n{called}pattern p({parameters}) {{\n{body}\n}}\n"


def _needed(equations: dict[str, str]) -> set[str]:
    """The names that the last equation needs, and its own."""
    needed = {list(equations)[-1]}
    for name in reversed(equations):
        if name in needed:
            needed |= set(re.findall(r"\b(?:[a-m]|v\d)\b", equations[name]))
    return needed
