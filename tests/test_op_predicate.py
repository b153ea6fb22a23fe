"""Calls that a predicate holds for, and what backends say about calls by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from collage_dsl import builder as build
from collage_dsl.backends.base import Backend
from collage_dsl.diagnostics import RuleError
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import propose
from collage_dsl.graph import Form, Graph, SubGraph
from collage_dsl.language import load, parse_graph, to_text
from collage_dsl.language.forms import from_json, to_json
from collage_dsl.rules import FusionRule, Host, OpPredicate, Trace
from collage_dsl.rules.predicate import Predicate, PredicateError, Question

MODEL = """
  x: f32[4]; w = const f32[4];
  a = add(x, w); b = exp(a); c = add(b, x); d = nn.relu(c); return d;
"""


@dataclass(frozen=True, slots=True)
class Adder(Backend):
    """Supports the sum of an argument and a constant."""

    binds: bool = True

    @property
    def name(self) -> str:
        return "adder"

    @property
    def version(self) -> str:
        return "1"

    @property
    def binds_constants(self) -> bool:
        return self.binds

    def supports(self, graph: Graph) -> str | None:
        forms = [node.form for node in graph.nodes]
        return None if forms == [Form.INPUT, Form.CONSTANT, Form.CALL] else "no constant to add"


def asked(rule: FusionRule, backends: Sequence[Backend]) -> tuple[list[SubGraph], list[str]]:
    trace = Trace(lookup=lookup(backends=backends), collects=True)
    found = list(rule.propose(parse_graph(MODEL), trace))
    return found, [refusal.because for refusal in trace.refusals]


def test_a_backend_is_asked_about_each_call_with_its_constants_bound() -> None:
    graph = parse_graph(MODEL)
    found, refused = asked(build.op_predicate("adder", ops=("add",)), [Adder()])

    assert found == [SubGraph(graph.set_of("a"), constants=graph.set_of("w"))]
    assert refused == [
        "exp is none of the operators that the rule names",
        "no constant to add",
        "nn.relu is none of the operators that the rule names",
    ]


def test_constants_stay_outside_where_the_backend_does_not_bind_them() -> None:
    found, refused = asked(build.op_predicate("adder"), [Adder(binds=False)])

    assert found == []
    assert refused == ["no constant to add"] * 4


def test_propose_asks_the_backends_that_it_is_given() -> None:
    spec = build.target("t", "llvm", rules=build.op_predicate("adder"))

    found = propose(parse_graph(MODEL), spec, backends=[Adder()])

    assert [candidate.nodes for candidate in found] == [{"a"}]


@pytest.mark.engine
def test_a_registered_backend_needs_nothing_but_its_name() -> None:
    text = """x: f32[1, 4, 8, 8]; n: f32[s, 4, 8, 8]; m: f32[1, 4, s, s];
      a = nn.max_pool2d(x) [pool_size = [2, 2]]; b = nn.max_pool2d(n) [pool_size = [2, 2]];
      c = nn.adaptive_avg_pool2d(m) [output_size = [2, 2]];
      return a, b, c;"""
    graph = parse_graph(text)
    trace = Trace(lookup=lookup(), collects=True)
    found = list(build.op_predicate("onnxruntime").propose(graph, trace))

    assert found == [SubGraph(graph.set_of("a")), SubGraph(graph.set_of("b"))]
    (refusal,) = trace.refusals
    assert refusal.inside == graph.set_of("c")
    assert "dimension 2 of operand 0 is not known: s" in refusal.because


def test_a_backend_that_there_is_not_is_an_error_and_no_refusal() -> None:
    with pytest.raises(PredicateError, match="no backend is named `adder`"):
        asked(build.op_predicate("adder"), [])


def test_a_backend_cannot_be_asked_where_no_lookup_is_given() -> None:
    with pytest.raises(PredicateError, match="what `adder` supports cannot be asked here"):
        list(build.op_predicate("adder").propose(parse_graph(MODEL), Trace()))


def test_a_declared_predicate_sees_the_result_of_the_call() -> None:
    questions: list[Question] = []

    def answer(question: Question) -> str:
        questions.append(question)
        return "not this" if question.root % 2 else ""

    graph = parse_graph(MODEL)
    rule = build.op_predicate(Predicate("fits", ("y",), "acme:fits"), ops=("add", "exp"))
    found = list(rule.propose(graph, Trace(lookup=lambda _: answer)))

    at = [graph.index(name) for name in ("a", "b", "c")]
    assert [(q.inside, q.root, q.operands, q.constants) for q in questions] == [
        (1 << index, index, {"y": index}, 0) for index in at
    ]
    assert found == [SubGraph(1 << index) for index in at if not index % 2]


SPEC = """\
collage 1;

extern predicate fits(y) from "acme.predicates:fits";

target t on llvm {
  rules union(
    op_predicate(fits, ops: [nn.max_pool2d, nn.avg_pool2d]),
    composite("lib.op", op_predicate("onnxruntime.supports")),
    host(),
    vertical(op_call_by_kind(anchor), prologue: none, epilogue: elementwise, max_depth: 3),
    vertical(horizontal(op_call_by_kind(anchor), max: 2)),
    combine_by_primitives(op_call_by_kind(), using: tvm_default, max_splits: 0),
  );
}
"""


def test_what_is_said_is_printed_built_and_kept_in_forms() -> None:
    specs = load(text=SPEC)

    assert to_text(specs) == SPEC
    assert from_json(to_json(specs)) == specs
    assert '"prologue": null' in to_json(specs)


def test_classes_are_written_out_and_upstream_names_are_read() -> None:
    text = """collage 1;
      let pools = one_of(nn.max_pool2d, nn.avg_pool2d);
      target t on llvm {
        partition_rule Union(
          OpPredicatePartitionRule("tvm.supports", ops: [pools, nn.relu, nn.avg_pool2d]),
          HostPartitionRule(),
        );
      }"""
    rule = load(text=text)["t"].rule

    ops = ("nn.max_pool2d", "nn.avg_pool2d", "nn.relu")
    assert rule == build.union(build.op_predicate("tvm", ops=ops), build.host())


def test_built_rules_are_those_of_files() -> None:
    predicate = Predicate("fits", ("y",), "acme.predicates:fits")
    calls = build.op_call_by_kind()
    rule = build.union(
        build.op_predicate(predicate),
        build.horizontal(calls, max=8),
        build.vertical(calls, epilogue=None, max_depth=1),
        build.combine_by_primitives(calls, max_splits=2),
        build.host(),
    )
    spec = build.target("t", "llvm", rules=rule)

    assert load(text=to_text(spec))["t"] == spec
    with pytest.raises(RuleError, match="`max` must be a whole number from 2 to 8"):
        build.target("t", "llvm", rules=build.horizontal(calls, max=9))


def test_a_file_cannot_declare_what_a_backend_says() -> None:
    declared = Predicate("fits", ("y",), "backend:tvm")

    with pytest.raises(ValueError, match="used twice, or is none"):
        build.target("t", "llvm", rules=OpPredicate(declared))


def test_predicates_of_one_name_from_two_files_stay_apart(tmp_path) -> None:  # type: ignore[no-untyped-def]
    for name in ("one", "two"):
        (tmp_path / f"{name}.collage").write_text(
            f'collage 1; extern predicate fits(y) from "acme.{name}:fits";'
            "rule offered = horizontal(vertical(op_predicate(fits)));"
        )
    text = """collage 1;
      import "one.collage" as one;
      import "two.collage" as two;
      target t on llvm { rules union(one.offered, two.offered, host()); }"""
    printed = to_text(load(text=text, search=[tmp_path]))

    assert 'extern predicate fits_2(y) from "acme.two:fits";' in printed
    assert "horizontal(vertical(op_predicate(fits_2)))" in printed
    assert to_text(load(text=printed)) == printed


def test_host_proposes_nothing() -> None:
    assert list(Host().propose(parse_graph(MODEL), Trace())) == []
