"""Random ONNX models: changed, cut, and with one node of any operator."""

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tvm.relax.frontend.onnx import onnx_frontend

from tests.fuzz.protobuf import FLOATS, NUMBERS, damaged, mutate
from tests.models import small_convolution, transformer_block

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
DTYPES = (
    *(TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64),
    *(TensorProto.INT32, TensorProto.BOOL, TensorProto.FLOAT16, TensorProto.UINT8),
    *(TensorProto.DOUBLE, TensorProto.BFLOAT16, TensorProto.STRING, TensorProto.COMPLEX64),
)
DIMS = (0, 1, 1, 2, 2, 3, 4, 4, 8, 8, "n")


def model(seed: int) -> bytes:
    """The content of a file that is an ONNX model, or nearly one."""
    chosen = Random(seed)
    made = one_operator(chosen) if chosen.random() < 0.4 else copied(chosen.choice(corpus()))
    if chosen.random() < 0.8:
        mutate(made, chosen, chosen.choice((1, 1, 2, 4)))
    content = made.SerializeToString()
    return damaged(content, chosen) if chosen.random() < 0.15 else content


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made


@cache
def corpus() -> tuple[onnx.ModelProto, ...]:
    """Models that are read."""
    folders = ("simple", "pytorch-converted", "pytorch-operator")
    files = [path for each in folders for path in sorted((DATA / each).glob("*/model.onnx"))]
    small = [path for path in files if path.stat().st_size < 100_000]
    given = small_convolution(), transformer_block(), *[functions()] * 8
    return *given, *map(onnx.load_model, small)


def functions() -> onnx.ModelProto:
    """A model with two functions, of which one calls the other."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("here", 1)]
    bodies = {"inner": ("Relu", ""), "outer": ("inner", "here")}
    made = [
        helper.make_function(
            "here", name, ["a"], ["b"], [helper.make_node(op, ["a"], ["b"], domain=domain)], opsets
        )
        for name, (op, domain) in bodies.items()
    ]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    node = helper.make_node("outer", ["x"], ["y"], domain="here")
    graph = helper.make_graph([node], "functions", tensors[:1], tensors[1:])
    return helper.make_model(graph, opset_imports=opsets, functions=made, ir_version=8)


@cache
def operators() -> tuple[str, ...]:
    return tuple(sorted(name for name in onnx_frontend._get_convert_map() if onnx.defs.has(name)))


def one_operator(chosen: Random) -> onnx.ModelProto:
    """A node with operands and attributes that its operator declares, but of random values."""
    schema = onnx.defs.get_schema(chosen.choice(operators()))
    most = min(schema.max_input, len(schema.inputs) + 2)
    count = chosen.randint(min(schema.min_input, most), most)
    names = [f"x{place}" for place in range(count)]
    dtypes = [chosen.choice(DTYPES) if chosen.random() < 0.3 else DTYPES[0] for _ in names]
    rank = chosen.randrange(6)
    inputs, weights = [], []
    for name, dtype in zip(names, dtypes, strict=True):
        if chosen.random() < 0.4 and dtype != TensorProto.STRING:
            weights.append(weight(name, chosen))
        else:
            size = rank if chosen.random() < 0.7 else chosen.randrange(6)
            shape = chosen.choices(DIMS, k=size)
            inputs.append(helper.make_tensor_value_info(name, dtype, shape))
    outputs = [f"y{place}" for place in range(max(1, schema.min_output))]
    node = helper.make_node(schema.name, names, outputs, name="node", domain=schema.domain)
    for name, declared in sorted(schema.attributes.items()):
        if declared.required or chosen.random() < 0.5:
            value = attribute(declared.type, chosen)
            if value is not None:
                node.attribute.append(helper.make_attribute(name, value))
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([node], "one", inputs, results, weights)
    opset = chosen.choice((7, 11, 13, 17, 18, 20))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def weight(name: str, chosen: Random) -> onnx.TensorProto:
    generator = np.random.default_rng(chosen.randrange(2**32))
    if chosen.random() < 0.5:
        values = np.asarray(chosen.choices(NUMBERS[:7], k=chosen.randrange(6)), np.int64)
        return numpy_helper.from_array(-values if chosen.random() < 0.2 else values, name)
    shape = chosen.choices([0, 1, 2, 3, 4, 8], k=chosen.randrange(5))
    return numpy_helper.from_array(generator.normal(size=shape).astype(np.float32), name)


def attribute(declared: onnx.defs.OpSchema.AttrType, chosen: Random) -> object:
    """A value of the declared type; None for graphs, tensors and types."""
    kinds = onnx.defs.OpSchema.AttrType
    numbers = (0, 1, 1, 2, 3, -1, -2, 5, chosen.choice(NUMBERS))
    texts = ("", "NOTSET", "SAME_UPPER", "VALID", "constant", "linear", "nearest", "add", "DCR")
    if declared == kinds.INT:
        return chosen.choice(numbers)
    if declared == kinds.INTS:
        return [chosen.choice(numbers) for _ in range(chosen.randint(1, 6))]
    if declared == kinds.FLOAT:
        return chosen.choice(FLOATS)
    if declared == kinds.FLOATS:
        return chosen.choices(FLOATS, k=chosen.randint(1, 4))
    if declared == kinds.STRING:
        return chosen.choice(texts)
    if declared == kinds.STRINGS:
        return chosen.choices(texts, k=chosen.randint(1, 4))
    return None
