"""Random patterns as text, with attributes, dimensions, dtypes, ranks, values and arithmetic."""

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

UNARY = ("nn.relu", "exp", "tanh", "abs", "negative", "logical_not", "elementwise")
BINARY = ("add", "multiply", "subtract", "divide", "maximum", "greater", "broadcast")
REDUCING = ("sum", "mean", "max", "argmax")
DTYPES = ("f32", "f16", "i8", "i32", "i64", "u8", "bool", "bf16")
SIZES = ("1", "2", "3", "4", "8", "16", "48")
COMPARED = ("==", "==", "!=", "<", "<=", ">", ">=")
AXES = ("0", "1", "-1", "2", "-2")


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
            words.append(f"not {self.one_of('nn.relu', '(exp | const)', 'reduce')}")
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
            return self.one_of("_", self.one_of("0.5", "2", "~0.7", "0"))
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

    # Conditions.

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
        name, other = self.one_of(*self.tensors), self.one_of(*self.tensors)
        compared, size = self.one_of(*COMPARED), self.one_of(*SIZES)
        dim, beside = (f"dim({n}, {self.one_of(*AXES)})" for n in (name, other))
        dtypes = ", ".join(dict.fromkeys(self.one_of(*DTYPES) for _ in range(2)))
        return str(
            self.one_of(
                f"dtype({name}) {self.one_of('==', '!=')} {self.one_of(*DTYPES)}",
                f"dtype({name}) in [{dtypes}]",
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
                f"all({name} ~= {other})",
            )
        )


LAYOUTS = ('"NCHW"', '"NHWC"')


def text_of(random: Random) -> str:
    """A file with the pattern `p`, which may be wrong."""
    writing = _Writing(random)
    equations: dict[str, str] = {}
    for at in range(random.randint(1, 4)):
        equations[f"v{at}"] = writing.value()
        writing.tensors += [f"v{at}"] * 2
    needed = _needed(equations)
    for names in (writing.tensors, writing.constants, writing.optional):
        names[:] = [name for name in dict.fromkeys(names) if name in needed]
    conditions = [f"  where {writing.condition()};" for _ in range(random.randint(0, 2))]
    parameters = ", ".join(
        f"{name}{'?' * (name in writing.optional)}{f': {said}' * bool(said)}"
        for name, said in writing.parameters.items()
        if name in needed
    )
    written = [f"  {name} = {value};" for name, value in equations.items() if name in needed]
    body = "\n".join([*written, *conditions, f"  yield {list(equations)[-1]};"])
    return f"collage 1;\npattern p({parameters}) {{\n{body}\n}}\n"


def _needed(equations: dict[str, str]) -> set[str]:
    """The names that the last equation needs, and its own."""
    needed = {list(equations)[-1]}
    for name in reversed(equations):
        if name in needed:
            needed |= set(re.findall(r"\b(?:[a-m]|v\d)\b", equations[name]))
    return needed
