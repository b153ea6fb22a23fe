"""
The versions of standard operators of ONNX, and their shape inference, by the onnx package.

The package comes with the extra `tvm`. It is imported when it is first needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from collage_dsl.graph import Attribute, Dim
from collage_dsl.language.inference.shapes import UNKNOWN_DIM, Shape

Shapes = Sequence[Shape | None]

_OLDEST_OPSET = 7
"""Before this set, operands broadcast by an attribute."""

_WITHOUT_EFFECT = frozenset(
    {"activation", "align_corners", "antialias", "approximate", "coordinate_transformation_mode"}
    | {"count_include_pad", "detect_negative", "detect_positive", "dtype", "exclude_outside"}
    | {"exclusive", "fmod", "ignore_index", "interleaved", "is_causal", "k", "largest"}
    | {"keep_aspect_ratio_policy", "left_window_size", "mode", "nearest_mode", "output_datatype"}
    | {"output_dtype", "p", "padding_mode", "periodic", "precision", "qk_matmul_output_mode"}
    | {"reverse", "right_window_size", "round_mode", "sampling_ratio", "saturate", "seed"}
    | {"select_last_index", "softmax_precision", "sorted", "spatial", "stash_type"}
    | {"storage_order", "to", "training_mode", "update_rule", "upper"}
)
"""
Attributes on which no shape depends, where the values of operands are not known. One version of
BatchNormalization has `spatial`, and its inference does not read it.
"""


def is_installed() -> bool:
    return _package() is not None


@cache
def _package() -> Any:
    try:
        import onnx
    except ImportError:
        return None
    return onnx


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A version of an operator. `types` are element types that its operands may have."""

    schema: Any
    types: tuple[int, ...]

    @property
    def is_variadic(self) -> bool:
        return any(_is(each, "Variadic") for each in self.schema.inputs)

    @property
    def read(self) -> Iterator[str]:
        """The attributes on which shapes depend. Of numbers that are not whole, none do."""
        for name, attribute in self.schema.attributes.items():
            if name not in _WITHOUT_EFFECT and not str(attribute.type).endswith(".FLOAT"):
                yield name

    def has(self, attribute: str) -> bool:
        return attribute in self.schema.attributes

    def requires(self, attribute: str) -> bool:
        return bool(self.schema.attributes[attribute].required)

    def placements(self, count: int) -> Iterator[tuple[int, ...]]:
        """Which operands of the operator `count` operands may be."""
        inputs = self.schema.inputs
        if self.is_variadic:
            if count >= self.schema.min_input:
                yield tuple(min(at, len(inputs) - 1) for at in range(count))
            return
        always = [at for at, each in enumerate(inputs) if _is(each, "Single")]
        others = [at for at in range(len(inputs)) if at not in always]
        if count >= len(always):
            for chosen in combinations(others, count - len(always)):
                yield tuple(sorted((*always, *chosen)))

    def results(
        self, places: Sequence[int], shapes: Shapes, attrs: Mapping[str, Attribute]
    ) -> tuple[Shape | None, ...] | str:
        """The shapes of all results, or of the first; or why there are none, in words."""
        found = self._inferred(places, shapes, attrs, self.schema.max_output)
        return self._inferred(places, shapes, attrs, 1) if isinstance(found, str) else found

    def _inferred(
        self, places: Sequence[int], shapes: Shapes, attrs: Mapping[str, Attribute], outputs: int
    ) -> tuple[Shape | None, ...] | str:
        package = _package()
        results = [f"o{at}" for at in range(outputs)]
        names = [""] * (len(places) if self.is_variadic else max(places, default=-1) + 1)
        types = {}
        for at, (place, shape) in enumerate(zip(places, shapes, strict=True)):
            names[at if self.is_variadic else place] = f"i{at}"
            dims = None if shape is None else [None if d == UNKNOWN_DIM else d for d in shape]
            types[f"i{at}"] = package.helper.make_tensor_type_proto(self.types[place], dims)
        node = package.helper.make_node(self.schema.name, names, results)
        node.attribute.extend(self._attributes({**self._filled(), **attrs}))
        try:
            found = package.shape_inference.infer_node_outputs(self.schema, node, types)
        except package.checker.ValidationError:  # an attribute is missing
            return (None,) * outputs
        except package.shape_inference.InferenceError as error:
            return _words(str(error))
        symbols = {dim for shape in shapes for dim in shape or () if isinstance(dim, str)}
        return tuple(_shape(found.get(name), symbols) for name in results)

    def _attributes(self, attrs: Mapping[str, Attribute]) -> Iterator[Any]:
        package = _package()
        for name, value in attrs.items():
            kind = str(self.schema.attributes[name].type).rpartition(".")[2]
            type_ = package.AttributeProto.AttributeType.Value(kind)
            yield package.helper.make_attribute(name, value, attr_type=type_)

    def _filled(self) -> Mapping[str, Attribute]:
        """A value for each required attribute without effect."""
        return {
            name: "" if str(attribute.type).endswith(".STRING") else 1
            for name, attribute in self.schema.attributes.items()
            if attribute.required and name in _WITHOUT_EFFECT
        }


@cache
def versions(name: str) -> tuple[Version, ...]:
    """
    The versions of an operator that differ in what they take, the newest first; none if they take
    or give other values than tensors, or any number of results.
    """
    schemas = [schema for schema in _schemas().get(name, ()) if not schema.deprecated]
    old = [schema for schema in schemas if schema.since_version <= _OLDEST_OPSET]
    found: dict[object, Version] = {}
    for schema in reversed([schema for schema in schemas if schema not in old[:-1]]):
        types = _element_types(schema)
        if types is None or any(_is(each, "Variadic") for each in schema.outputs):
            return ()
        operands = tuple((each.name, str(each.option)) for each in schema.inputs)
        found.setdefault((operands, frozenset(schema.attributes)), Version(schema, types))
    return tuple(found.values())


@cache
def _schemas() -> Mapping[str, Sequence[Any]]:
    found: dict[str, list[Any]] = {}
    for schema in _package().defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema)
    return {name: sorted(each, key=lambda s: s.since_version) for name, each in found.items()}


def _element_types(schema: Any) -> tuple[int, ...] | None:
    """One for each operand, the same where they must be; None if an operand is no tensor."""
    found = []
    for operand in schema.inputs:
        names = sorted(t[7:-1].upper() for t in operand.types if t.startswith("tensor("))
        if not names:
            return None
        name = "FLOAT" if "FLOAT" in names else names[0]
        found.append(int(_package().TensorProto.DataType.Value(name)))
    return tuple(found)


def _is(operand: Any, option: str) -> bool:
    return str(operand.option).endswith(f".{option}")


def _shape(type_: Any, symbols: set[str]) -> Shape | None:
    if type_ is None or not type_.HasField("tensor_type"):
        return None
    tensor = type_.tensor_type
    has_shape = tensor.HasField("shape")
    return tuple(_dim(dim, symbols) for dim in tensor.shape.dim) if has_shape else None


def _dim(dim: Any, symbols: set[str]) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) if dim.dim_param in symbols else UNKNOWN_DIM


def _words(message: str) -> str:
    """The message of the package as part of a sentence."""
    text = message.rpartition("Error] ")[2].strip().rstrip(".")
    return text[:1].lower() + text[1:]
