"""The JSON documents of the commands that need no model. Their schemas are in `docs/schemas`."""

from typing import Any, Literal

from collage_dsl.cost.exchange import CostDocument
from collage_dsl.report.documents import DiagnosticDocument, Document, FileName, UnreadDocument


class AttributeDocument(Document):
    """
    An attribute of an operator. One that is `required` has no default; one that `may_be_none` can
    have no value.
    """

    name: str
    type: str
    may_be_none: bool
    required: bool
    default: Any


class OperatorDocument(Document):
    """
    An operator of Relax. `operands` is null if it takes any number of them. So many as
    `optional_operands` says may be left out, mostly the last. `literal_operands` are written in the
    program. `in_models` has what models usually have in the place of an operator of ONNX; it is
    empty if nodes of it are removed, and null if they stay.
    """

    name: str
    operands: list[str] | None
    optional_operands: int
    literal_operands: list[str]
    attributes: list[AttributeDocument]
    kind: str
    commutative: bool
    in_models: list[str] | None


class OpsDocument(Document):
    """The answer of `collage ops`, in alphabetical order; `tvm` is a minor version."""

    tvm: str
    operators: list[OperatorDocument]


class ExampleDocument(Document):
    """
    The answer of `collage example`: a graph in the text notation that `pattern` matches at the node
    `at`, the `nodes` inside the match, and a test that says so.
    """

    pattern: str
    graph: str
    at: str
    nodes: list[str]
    test: str


class KnownDocument(Document):
    """
    How many costs a store has for a `context`, a hash of what they depend on besides the kernel:
    the machine (`here` if it is this one), the target, and, as JSON, its options, the versions and
    the way of timing. `kinds` are the kinds of reasons why some are infeasible, each with their
    number; the first that may pass is tried again at the time `retried`. Dates are in UTC.
    """

    context: str
    machine: str
    here: bool
    target: str
    options: str
    versions: str
    timed: str
    costs: int
    infeasible: int
    kinds: dict[str, int]
    retried: str
    first: str
    last: str


class StoreDocument(Document):
    """The answer of `collage costs show`; `kernels` are null unless they are asked for."""

    store: FileName
    contexts: list[KnownDocument]
    kernels: list[CostDocument] | None


class RatesDocument(Document):
    """
    What one core does with the kernels of a backend: multiplications in a second, bytes in a second
    from the caches (`near`) and from memory (`far`), and the seconds of a kernel with hardly any
    work, whose code and data are in the caches (`launch`) or in memory (`cold`). All are null where
    a `reason` says why they cannot be measured.
    """

    backend: str
    multiplications: float | None
    near: float | None
    far: float | None
    launch: float | None
    cold: float | None
    reason: FileName | None = None


class CalibrationDocument(Document):
    """The answer of `collage costs calibrate`."""

    store: FileName
    machine: str
    backends: list[RatesDocument]


class ExplainDocument(Document):
    """The answer of `collage explain CODE`; `page` is Markdown."""

    code: str
    title: str
    page: str


class FailureDocument(Document):
    """An expectation that does not hold, or a test that cannot be run, with its place."""

    code: str
    line: int
    column: int
    message: str
    notes: list[str]


class TestDocument(Document):
    """A test, and the place of its name in the file."""

    __test__ = False  # pytest must not collect this class

    file: FileName
    line: int
    column: int
    name: str
    passed: bool
    failures: list[FailureDocument]


class TestsDocument(Document):
    """
    The answer of `collage test`, in the order of the files. `diagnostics` say what is wrong with
    the files that have errors: none of their tests ran.
    """

    __test__ = False

    tests: list[TestDocument]
    diagnostics: list[DiagnosticDocument]
    unread: list[UnreadDocument]


class MatchDocument(Document):
    """
    The nodes of a match or candidate on the graph of a test, in graph order. `version` says where
    this graph is: in the tests of `old`, of `new`, or of `both`. `reason` says why the new pattern
    does not match there.
    """

    file: FileName
    test: str
    version: Literal["old", "new", "both"]
    nodes: list[str]
    reason: FileName = ""


class ChangeDocument(Document):
    """
    A definition that is not the same in both versions, with the matches of a pattern, or the
    candidates of a target, that only one version has. `unknown` says why others are not known.
    """

    file: FileName
    kind: Literal["pattern", "rule", "target"]
    name: str
    change: Literal["removed", "added", "changed"]
    lost: list[MatchDocument]
    gained: list[MatchDocument]
    unknown: list[FileName]


class BreakingDocument(Document):
    """
    The answer of `collage breaking`. `breaking`: something was removed, or is no longer matched.
    `graphs` were compared; `left_out` are tests that name a model.
    """

    old: FileName
    new: FileName
    breaking: bool
    graphs: int
    left_out: int
    changes: list[ChangeDocument]


class CodesDocument(Document):
    """The answer of `collage explain` without a code: the titles of all codes."""

    codes: dict[str, str]
