"""Dataflow graphs, sub-graphs and candidates: rules propose them and a search chooses some."""

from collage_dsl.graph.candidate import (
    CandidateKernel,
    Composite,
    Option,
    SubGraph,
    Toolchain,
    cores_of,
    covered,
    is_fast_math,
    items_of,
    label_of,
    libraries,
)
from collage_dsl.graph.device import Device
from collage_dsl.graph.extract import (
    Extract,
    extract,
    fingerprint,
    places,
    steers,
    tensor_results,
    without_weights,
)
from collage_dsl.graph.graph import Attribute, Graph, Node
from collage_dsl.graph.measuring import Measuring, Runs
from collage_dsl.graph.opset import OpSet, first, last, members, opset, spread, union_of
from collage_dsl.graph.origin import Origin
from collage_dsl.graph.tuning import Record, Tuning
from collage_dsl.graph.types import (
    Dim,
    Form,
    Kind,
    OpaqueType,
    TensorType,
    TupleType,
    Type,
    tensors,
)

__all__ = [
    "Attribute",
    "CandidateKernel",
    "Composite",
    "Device",
    "Dim",
    "Extract",
    "Form",
    "Graph",
    "Kind",
    "Measuring",
    "Node",
    "OpSet",
    "OpaqueType",
    "Option",
    "Origin",
    "Record",
    "Runs",
    "SubGraph",
    "TensorType",
    "Toolchain",
    "Tuning",
    "TupleType",
    "Type",
    "cores_of",
    "covered",
    "extract",
    "fingerprint",
    "first",
    "is_fast_math",
    "items_of",
    "label_of",
    "last",
    "libraries",
    "members",
    "opset",
    "places",
    "spread",
    "steers",
    "tensor_results",
    "tensors",
    "union_of",
    "without_weights",
]
