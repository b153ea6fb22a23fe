"""The JSON answers of the commands. Their schemas are in `docs/schemas`."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collage_dsl.cost import Infeasible, Variant
from collage_dsl.graph import CandidateKernel, Origin, is_fast_math, label_of, members
from collage_dsl.graph.sizes import Sizes
from collage_dsl.printable import well_formed
from collage_dsl.search import CLOSE, FORESEEN, Plan, PlannedKernel, SearchRecord


class Document(BaseModel):
    """Times are in seconds. Nodes have their names in the model."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def plain(self) -> object:
        """As dictionaries and lists; null stands for what is no number."""
        return json.loads(self.model_dump_json())


FileName = Annotated[str, BeforeValidator(well_formed)]
"""The name of a file, or a text that may hold one. It need not be UTF-8."""


class ReplacementDocument(Document):
    """A text to write in place of a part of the file of the diagnostic."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class FixDocument(Document):
    """An exact change of the file after which a diagnostic is gone."""

    title: str
    replacements: list[ReplacementDocument]


class PlaceDocument(Document):
    """A part of a file. Lines and columns count from 1, the end is exclusive."""

    file: FileName
    line: int
    column: int
    end_line: int
    end_column: int


class NoteDocument(Document):
    """What else is to be known about a diagnostic; `place` is null for a remark without a place."""

    message: str
    place: PlaceDocument | None = None


class DiagnosticDocument(PlaceDocument):
    """
    One thing wrong with a spec file, and where. `fix` is null if what `help` says leaves something
    to the user.
    """

    severity: Literal["error", "warning"]
    code: str
    message: str
    help: str
    notes: list[NoteDocument] = []
    fix: FixDocument | None = None


class UnreadDocument(Document):
    """A file that was given but could not be read or written, and why."""

    file: FileName
    message: FileName


class CheckDocument(Document):
    """The answer of `collage check`, in file order."""

    diagnostics: list[DiagnosticDocument]
    unread: list[UnreadDocument]


class FindingDocument(Document):
    """One thing that `collage doctor` checked; `advice` is empty if it is fine."""

    what: str
    found: str
    advice: str


class DoctorDocument(Document):
    """The answer of `collage doctor`."""

    findings: list[FindingDocument]


class OriginDocument(Document):
    """An ONNX node; its name is empty if it has none."""

    op: str
    name: str

    @classmethod
    def all(cls, origins: Iterable[Origin]) -> "list[OriginDocument]":
        return [cls(op=each.op, name=each.name) for each in origins]

    def __str__(self) -> str:
        return f"{self.op} {self.name}".rstrip()


class CandidateDocument(Document):
    """A kernel that a rule proposed; nodes and constants in graph order."""

    target: str
    label: str
    nodes: list[str]
    constants: list[str]
    onnx: list[OriginDocument] = Field(
        default_factory=list, description="the ONNX nodes that the nodes came from"
    )

    @classmethod
    def of(cls, candidate: CandidateKernel) -> "CandidateDocument":
        graph, sub_graph = candidate.graph, candidate.sub_graph
        return cls(
            target=candidate.target,
            label=label_of(graph, sub_graph),
            nodes=[graph.nodes[i].name for i in members(sub_graph.inside)],
            constants=[graph.nodes[i].name for i in members(sub_graph.constants)],
            onnx=OriginDocument.all(graph.origins(sub_graph.inside)),
        )


class CandidatesDocument(Document):
    """The answer of `collage candidates`."""

    model: FileName
    candidates: list[CandidateDocument]


class VariantDocument(Document):
    """One of several algorithms for a kernel, as measured; `reason` says why it cannot run."""

    name: str
    cost: float | None
    error: float | None = Field(
        default=None,
        description="largest difference from the first variant, relative to the largest result",
    )
    reason: FileName | None = None

    @classmethod
    def of(cls, variant: Variant) -> "VariantDocument":
        if isinstance(variant.cost, Infeasible):
            return cls(name=variant.name, cost=None, reason=variant.cost.reason)
        return cls(name=variant.name, cost=variant.cost, error=variant.error)


class KernelDocument(CandidateDocument):
    """A kernel of a plan, and its estimated cost."""

    cost: float
    copies: float = Field(default=0.0, description="the part of it for copies between devices")
    variant: str = Field(default="", description="the algorithm; empty where there is no choice")
    variants: list[VariantDocument] = Field(
        default_factory=list, description="the algorithms that were measured"
    )
    source: FileName = Field(default="", description="where the cost came from, if that is known")
    measured_at: str = Field(
        default="", description="when the cost was measured, in UTC; empty if it was not"
    )

    @classmethod
    def chosen(cls, kernel: PlannedKernel) -> "KernelDocument":
        candidate = CandidateDocument.of(kernel.candidate)
        came = kernel.provenance
        return cls(
            **candidate.model_dump(),
            cost=kernel.cost,
            copies=kernel.copies,
            variant=kernel.variant,
            variants=[VariantDocument.of(each) for each in kernel.variants],
            source=came.source if came else "",
            measured_at=came.measured_at if came else "",
        )

    @property
    def error(self) -> float | None:
        """The error of its variant."""
        return next((each.error for each in self.variants if each.name == self.variant), None)


class MeasurementsDocument(Document):
    """
    The number of distinct kernels whose cost was asked for, and the sources of the costs. From
    `retried` on (UTC), the first kernel is measured again whose reason may pass.
    """

    found: int
    measured: int
    reused: int
    infeasible: int
    reasons: dict[FileName, int] = Field(description="why, and how many for each reason")
    kinds: dict[str, int] = Field({}, description="how many for each kind of reason")
    retried: str = ""
    queued: float = Field(
        default=0.0, description="seconds that kernels waited for a device of another machine"
    )
    lost: int = Field(default=0, description="devices that were lost, and replaced by others")


class SearchDocument(Document):
    """How the plan was found, before neighbouring kernels were merged."""

    strategy: str
    because: str = Field(description="why this strategy")
    proven: bool = Field(description="no plan of these candidates is better")
    predicted: bool = Field(
        description=f"no plan costs more than {CLOSE:.0%} less, unless a candidate without a "
        f"price costs less than {FORESEEN:.0%} of what is predicted"
    )
    bound: float = Field(description="no plan of these candidates costs less")
    gap: float = Field(description="what part of its cost a cheaper plan may save")
    states: int = Field(description="states, whole covers or nodes of branch and bound explored")
    candidates: int = Field(description="candidates that the rules proposed")
    priced: int = Field(description="candidates whose cost the search asked for")
    infeasible: int = Field(description="those of the priced ones that cannot be used")

    @classmethod
    def of(cls, record: SearchRecord) -> "SearchDocument":
        return cls(
            strategy=record.strategy,
            because=record.because,
            proven=record.proven,
            predicted=record.predicted,
            bound=record.bound,
            gap=record.gap,
            states=record.states,
            candidates=record.candidates,
            priced=record.priced,
            infeasible=record.infeasible,
        )


class PlanDocument(Document):
    """The answer of `collage plan`: kernels in execution order, and the sum of their costs."""

    model: FileName
    operators: int = Field(description="operator calls in the model, all covered by kernels")
    cost: float
    kernels: list[KernelDocument]
    fast_math: list[str] = Field(
        default_factory=list,
        description="targets in the plan whose kernels need not follow IEEE 754",
    )
    search: SearchDocument | None = Field(
        default=None, description="absent where the plan was not searched for"
    )
    measurements: MeasurementsDocument | None = Field(
        default=None, description="absent where no cost was measured, now or before"
    )
    timed_at: dict[str, int] = Field(
        default_factory=dict,
        description="the sizes of dimensions with names for which the costs are",
    )

    @classmethod
    def of(
        cls,
        model: str,
        plan: Plan,
        measurements: MeasurementsDocument | None = None,
        sizes: Sizes | None = None,
    ) -> "PlanDocument":
        return cls(
            model=model,
            operators=plan.graph.calls.bit_count(),
            cost=plan.cost,
            kernels=[KernelDocument.chosen(kernel) for kernel in plan.kernels],
            fast_math=sorted({c.target for c in plan.candidates if is_fast_math(c.toolchain)}),
            search=SearchDocument.of(plan.record) if plan.record else None,
            measurements=measurements,
            timed_at=dict(sizes or {}),
        )


class LatencyDocument(Document):
    """Measured times of whole runs: a low percentile, and the distance between the quartiles."""

    seconds: float
    spread: float
    runs: int


class ShareDocument(Document):
    """The operator calls and kernels of one target in a plan."""

    operators: int
    kernels: int


class ContenderDocument(Document):
    """
    One plan that was built and raced: the `mixed` plan, one of the next best (`mixed 2`), the plan
    of a single target, or the `refined` one. If it could not be built, `reason` says why.
    """

    name: str
    alone: bool = Field(description="whether it is the plan of a single target, by its name")
    targets: dict[str, ShareDocument]
    estimated: float | None
    measured: LatencyDocument | None
    error: float | None = Field(
        default=None,
        description="how much more is estimated than measured, as a part of what was measured",
    )
    interval: tuple[float, float] | None = Field(
        default=None, description="between which times the percentile is, by chance: at 95 %"
    )
    tied: bool = Field(
        default=False, description="its interval overlaps with that of the fastest contender"
    )
    reason: FileName | None = None


class RefinementDocument(Document):
    """
    How the winner of the race was refined by runs of whole plans. `before` and `after` are of one
    final race, of the plan at the start and of the fastest one found, in alternation.
    """

    method: Literal["evolutionary"]
    budget: float = Field(description="seconds")
    run: int = Field(description="plans that were built and run")
    known: int = Field(description="plans that were run before, as the state says")
    failed: int = Field(description="plans that could not be built")
    complete: bool = Field(
        default=False, description="whether no other plan was found before the time was over"
    )
    kept: bool = Field(description="whether the refined plan is faster for certain, and was kept")
    before: LatencyDocument | None = Field(description="null where no plan was faster")
    after: LatencyDocument | None
    state: FileName = Field(description="the file with which a second refinement goes on")


class ErrorDocument(Document):
    """An error against the reference, relative to the largest value of the node."""

    node: str
    error: float
    tolerance: float
    inputs: str = Field(description="the draw of inputs that shows it")


class KernelErrorDocument(ErrorDocument):
    """The error of a kernel, for the values that it takes in the model."""

    target: str
    label: str
    nodes: list[str]
    onnx: list[OriginDocument] = Field(
        default_factory=list, description="the ONNX nodes that the nodes came from"
    )


class VerificationDocument(Document):
    """
    The comparison of every kernel and of the outputs with onnxruntime. Of all errors, that which
    is the largest part of what is allowed.
    """

    error: float
    tolerance: float
    passed: bool
    kernel: KernelErrorDocument | None = Field(description="the kernel that errs most")
    output: ErrorDocument | None = Field(description="the output of the model that errs most")
    draws: list[str] = Field(description="the draws of inputs that were compared")
    kernels: int = Field(description="how many kernels the model calls")
    unchecked: list[str] = Field(
        description="why some kernels were compared as parts of the whole model only"
    )
    reference: str = Field(
        default="onnxruntime", description="what the outputs of the model were compared with"
    )


class RaceDocument(Document):
    """The plans for a model that were built and raced, and how right the kept one is."""

    chosen: str = Field(
        description="the name of the contender that was kept: the fastest, or one that is tied "
        "with it and was estimated to be as fast, but has fewer targets or a lower estimate"
    )
    plan: PlanDocument
    contenders: list[ContenderDocument]
    refinement: RefinementDocument | None = None
    verification: VerificationDocument | None
    measurements: MeasurementsDocument
    launch: dict[str, float] = Field(description="measured seconds to launch a kernel, by target")


class SizeDocument(RaceDocument):
    """The race at some sizes of dimensions with names."""

    sizes: dict[str, int]


class CompileDocument(RaceDocument):
    """The answer of `collage compile`, `bench`, `demo` and `report`."""

    model: FileName
    sizes: list[SizeDocument] = Field(
        default_factory=list, description="the sizes that the model was also compiled for"
    )


class ReplayedDocument(Document):
    """
    The plan that was found again for some sizes, or the `reason` why there is none. `differences`
    are the kernels that were not chosen when the model was frozen.
    """

    sizes: dict[str, int]
    chosen: str
    plan: PlanDocument | None
    reason: str
    differences: list[str]


class ReplayDocument(Document):
    """The answer of `collage replay`; the first plan is that for any size."""

    model: FileName
    plans: list[ReplayedDocument]


class RunDocument(Document):
    """The answer of `collage run`."""

    folder: FileName
    inputs: Literal["random", "file"]
    sizes: dict[str, int] = Field(
        default_factory=dict, description="the sizes of dimensions with names in random inputs"
    )
    outputs: dict[str, "TensorDocument"]
    measured: LatencyDocument


class TensorDocument(Document):
    """A summary of a tensor."""

    dtype: str
    shape: list[int]
    smallest: float | None = Field(description="null where there are no elements, or no numbers")
    largest: float | None
    mean: float | None


def shares(plan: Plan) -> dict[str, ShareDocument]:
    """The operator calls and kernels of each target, in order of first use."""
    operators: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    for kernel in plan.kernels:
        calls = kernel.candidate.calls
        operators[kernel.target] += calls.bit_count()
        kernels[kernel.target] += 1
    return {
        target: ShareDocument(operators=count, kernels=kernels[target])
        for target, count in operators.items()
    }


class GraphNodeDocument(Document):
    """A node of a graph, and the ONNX nodes that it came from."""

    name: str
    form: str
    operator: str
    kind: str
    type: str
    inputs: list[str]
    attributes: dict[str, object]
    onnx: list[OriginDocument]


class GraphDocument(Document):
    """The answer of `collage show`."""

    model: FileName
    nodes: list[GraphNodeDocument]


class LeftOutDocument(Document):
    """Calls of an operator that a target cannot run: how many, one of them, and why."""

    operator: str
    calls: int
    example: str
    reason: str


class TargetCoverageDocument(Document):
    """How many of the operator calls of a model a target can run."""

    target: str
    covered: int
    calls: int
    left: list[LeftOutDocument]
    seconds: float | None = Field(
        default=None,
        description="the cost of those kernels of the known plan whose calls it can all run",
    )


class CoverageDocument(Document):
    """The answer of `collage coverage`; `together` is what all targets can run."""

    model: FileName
    together: int
    calls: int
    targets: list[TargetCoverageDocument]
    costs: FileName | None = Field(description="where costs are from: a table, or the store")
    seconds: float | None = Field(
        description="the cost of the cheapest plan of kernels whose costs are known"
    )
    kernels: int | None = Field(description="the number of kernels of this plan")
    unknown: str | None = Field(description="why its time is not known")
