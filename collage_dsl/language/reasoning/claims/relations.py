"""
Derive facts about values from the operators of a pattern: `nn.relu` keeps the dtype.

A relation says one thing that an operator makes true of each of its calls. `claims` finds those
of a pattern; findings/contradictions.py looks for conditions that they exclude.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.source import Span

Apply = Callable[[Called, Facts], None]


@dataclass(frozen=True, slots=True)
class Relation:
    """
    What an operator says of its calls, as a sentence about `{op}` and as two functions.

    `once` adds what always holds, `again` what follows from facts that are known by then. An
    absent optional call stands for its first operand; `if_absent` says that the relation holds
    then too. Others are left out for optional calls. `axes_in` is the attribute whose axes it is
    about, if it is about axes. A relation that `is_plain` explains little; messages prefer others.
    `asks` is what `again` asks about, besides attributes: it is applied when more is known of that.
    """

    says: str
    once: Apply | None = None
    again: Apply | None = None
    if_absent: bool = False
    axes_in: str = ""
    is_plain: bool = False
    asks: Literal["shapes", "dtypes", "all"] = "shapes"


@dataclass(frozen=True, slots=True)
class Claim:
    """A relation, and the call that it holds for."""

    relation: Relation
    called: Called

    @property
    def span(self) -> Span | None:
        return self.called.span

    @property
    def ops(self) -> tuple[str, ...]:
        return self.called.call.names

    @property
    def says(self) -> str:
        return self.relation.says.format(op=f"`{self.ops[0]}`")

    @property
    def subjects(self) -> frozenset[str]:
        match self.relation.asks:
            case "shapes":
                return self.called.subjects
            case "dtypes":
                return self.called.subjects_of_dtypes
            case "all":
                return self.called.all_subjects

    def once(self, facts: Facts) -> None:
        if self.relation.once is not None:
            self.relation.once(self.called, facts)

    def again(self, facts: Facts) -> None:
        if self.relation.again is not None:
            self.relation.again(self.called, facts)


Relations = Callable[[tuple[str, ...]], Iterator[Relation]]
"""The relations that hold for a call of any of some operators."""


def claims(called: Called, all_relations: tuple[Relations, ...]) -> Iterator[Claim]:
    """What the operators of a call say of it; of those of a kind, nothing is known."""
    if called.operands and not called.call.kinds:
        for relation in relations_of(called.call.ops, all_relations):
            if relation.if_absent or not called.call.optional:
                yield Claim(relation, called)


Row = tuple[AbstractSet[str] | Callable[[str], bool], Relation]
"""Operators, or what holds of them, and a relation that holds for a call of any of them."""


def table(*rows: Row) -> Relations:
    """The relations of the rows that all operators of a call belong to."""

    def relations(ops: tuple[str, ...]) -> Iterator[Relation]:
        for row, relation in rows:
            if all(map(row if callable(row) else row.__contains__, ops)):
                yield relation

    return relations


@lru_cache(1024)
def relations_of(
    ops: tuple[str, ...], all_relations: tuple[Relations, ...]
) -> tuple[Relation, ...]:
    return tuple(relation for relations in all_relations for relation in relations(ops))


# What operators have in common.

_OTHER_SHAPE = frozenset(
    {"broadcast_to", "expand_dims", "eye", "full", "hamming_window", "nn.dropout", "ones", "outer"}
    | {"shape_to_tensor", "zeros"}
)
"""Elementwise and broadcast operators whose result does not have the shape of the operands."""

_LIKE_FIRST = frozenset(
    {"argsort", "bucketize", "ewise_fma", "flip", "full_like", "index_put", "nn.group_norm"}
    | {"nn.instance_norm", "nn.layer_norm", "nn.log_softmax", "nn.prelu", "nn.rms_norm"}
    | {"nn.softmax", "quantize", "dequantize", "reverse_sequence", "scatter_elements", "scatter_nd"}
    | {"slice_scatter", "sort", "hint_on_device", "wrap_param"}
    | {"ccl.allreduce", "ccl.broadcast_from_worker0"}
    | {f"grad.{op}" for op in ("end_checkpoint", "no_grad", "start_checkpoint")}
    | {f"onnx.{sort}Normalization" for sort in ("Batch", "Group", "MeanVariance")}
    | {f"onnx.{op}" for op in ("BitCast", "Cast", "Dropout", "Identity", "ReverseSequence")}
    | {"onnx.EyeLike", "onnx.RotaryEmbedding", "onnx.Trilu"}
    | {f"com.microsoft.{sort}Gelu" for sort in ("", "Bias", "Fast", "Quick")}
    | {f"com.microsoft.QLinear{sort}" for sort in ("LeakyRelu", "Sigmoid", "Softmax")}
    | {f"com.microsoft.{sort}Linear" for sort in ("Dequantize", "Quantize")}
    | {"com.microsoft.BiasSoftmax", "com.microsoft.Trilu"}
    | {"com.microsoft.GroupNorm", "com.microsoft.Inverse", "com.microsoft.RotaryEmbedding"}
)
"""Other operators whose first result has the shape of the first operand."""


def keeps_dtype(op: str) -> bool:
    """Whether the result of `op` has the dtype of its first operand."""
    known = operators()[op]
    gives_tensor = known.gives == "tensor" and known.takes[:1] != ("tuple",)
    return gives_tensor and known.dtypes == (known.operands or ())[:1]


def keeps_shape(op: str) -> bool:
    """Whether the result of `op` has the shape of its first operand."""
    known = operators()[op]
    simple = known.kind is Kind.ELEMENTWISE and op not in _OTHER_SHAPE
    return simple or op in _LIKE_FIRST or known.shape == "first"


def broadcasts(op: str) -> bool:
    """Whether all operands of `op` are broadcast to one shape."""
    known = operators()[op]
    takes_two = known.operands == ("x1", "x2") and op not in _OTHER_SHAPE
    is_binary = known.kind is Kind.BROADCAST and takes_two
    return is_binary or op == "where" or known.shape == "broadcast"
