"""Predicates that are host code: when they run, what they see, and what they may answer."""

import sys
from pathlib import Path

import onnx
import pytest

import collage_dsl as collage
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import searched
from collage_dsl.graph import Graph
from collage_dsl.language import check, load, parse_graph, to_text
from collage_dsl.language.forms import from_json, to_json
from collage_dsl.rules import DFPattern, FusionSpec, Trace
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.predicate import Predicate, PredicateError
from collage_dsl.source import Source
from tests.commands import said
from tests.models import small_convolution

MODULE = """
import pathlib
pathlib.Path(__file__).with_name("imported").touch()
def none(x, b): return None
def true(x, b): return True
def no(x, b): return False
def why(x, b): return f"{x.name} {x.op!r} {x.dtype} {x.shape} {x.rank} {x.is_constant} {b}"
def empty(x, b): return ""
def number(x, b): return 3
def fails(x, b): raise KeyError("k")
constant = 1
"""

SPEC = """collage 1;
extern predicate fits(x, b) from "host_predicates:FUNCTION";
pattern p(x, b?) { k = nn.relu(x); y = add?(k, b); where fits(x, b); yield y; }
target t on llvm { rules dfpattern(p); }
test "a" { graph { x: f32[4]; y = nn.relu(x); return y; } expect matches(p) == 1; }
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "host_predicates.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "host_predicates", raising=False)


def spec(function: str) -> FusionSpec:
    return load(text=SPEC.replace("FUNCTION", function))["t"]


def graph() -> Graph:
    return parse_graph("x: f32[4]; y = nn.relu(x); return y;")


def proposed(function: str) -> tuple[int, list[str]]:
    trace = Trace(lookup=lookup(allow_extern=True), collects=True)
    found = spec(function).candidates(graph(), trace)
    return len(found), [refusal.because for refusal in trace.refusals]


def test_why_and_near_ask_host_code_only_where_it_may_run() -> None:
    asked = collage.patterns(text=SPEC.replace("FUNCTION", "why"))["p"]

    assert "x '' float32" in collage.why(asked, graph(), at="y", allow_extern=True).because
    assert len(collage.near(asked, graph(), allow_extern=True).misses) == 1
    with pytest.raises(PredicateError, match="allow"):
        collage.why(asked, graph(), at="y")
    with pytest.raises(PredicateError, match="allow"):
        collage.near(asked, graph())


@pytest.mark.parametrize("function", ["none", "true"])
def test_none_and_true_hold(function: str) -> None:
    assert proposed(function) == (1, [])


def test_a_refusal_gives_its_reason_and_sees_the_values() -> None:
    count, (because,) = proposed("why")

    assert count == 0
    assert "x '' float32 (4,) 1 False None" in because


def test_false_is_a_refusal() -> None:
    assert proposed("no") == (0, ["pattern p: predicate `fits` refuses (at `y`)"])


@pytest.mark.parametrize("function", ["empty", "number", "fails", "constant", "missing"])
def test_what_is_no_answer_is_an_error_and_not_a_refusal(function: str) -> None:
    with pytest.raises(PredicateError, match=rf"predicate `fits` .*host_predicates:{function}"):
        proposed(function)


def test_nothing_is_imported_unless_it_is_allowed(tmp_path: Path) -> None:
    """What `collage lsp` does with such a file is in tests/lsp/test_server.py."""
    path = tmp_path / "spec.collage"
    path.write_text(SPEC.replace("FUNCTION", "true"))

    assert check(Source(str(path), path.read_text())) == ()
    for command in (["check"], ["fmt"], ["convert", "--to", "yaml"]):
        assert said(*command, path).code == 0
    assert said("explain", "E0410").code == 0
    assert "E0711" in said("test", path).out
    model = tmp_path / "m.graph"
    model.write_text("x: f32[4]; y = nn.relu(x); return y;")
    assert said("why", f"{path}#p", model, "--at", "y").code == 2
    with pytest.raises(PredicateError, match="not allowed"):
        spec("true").candidates(graph(), Trace(lookup=lookup()))
    assert not (tmp_path / "imported").exists()
    spec("true").candidates(graph(), Trace(lookup=lookup(allow_extern=True)))
    assert (tmp_path / "imported").exists()


def test_a_table_is_asked_through_its_own_lookup() -> None:
    table = Predicate("c", (), "pattern_table:cutlass.conv2d")

    assert lookup(tables=lambda _: lambda _: "no")(table)(None) == "no"  # type: ignore[arg-type]


def test_what_an_earlier_predicate_said_is_not_the_reason_of_a_later_condition() -> None:
    text = SPEC.replace("FUNCTION", "why").replace("where fits(x, b);", "where not fits(x, b);")
    text = text.replace("yield y;", "where rank(x) == 4; yield y;", 1)
    rule = load(text=text)["t"].rule
    assert isinstance(rule, DFPattern)
    attempt = Attempt()

    assert not matches(rule.pattern, graph(), 1, attempt, lookup(allow_extern=True))
    assert attempt.because == "`rank(x) == 4` does not hold (at `y`)"


def test_files_may_use_one_name_for_different_predicates(tmp_path: Path) -> None:
    for name in ("one", "two"):
        library = f"""collage 1;
extern predicate fits(x) from "acme.{name}:fits";
pattern {name}(x) {{ y = nn.relu(x); where fits(x) == true; yield y; }}
"""
        (tmp_path / f"{name}.collage").write_text(library)
    main = tmp_path / "main.collage"
    main.write_text("""collage 1;
import "one.collage" as a;
import "two.collage" only (two, fits as other);
pattern three(x) { y = tanh(x); where a.fits(x) or other(x); yield y; }
target t on llvm { rules union(dfpattern(a.one), dfpattern(two), dfpattern(three)); }
""")
    specs = dict(load(main))

    assert "extern predicate fits_2(x)" in to_text(specs)
    assert load(text=to_text(specs)) == specs
    assert from_json(to_json(specs)) == specs


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model, a spec whose library runs a relu only where host code says so, and costs."""
    (model, spec, costs) = (tmp_path / name for name in ("m.onnx", "s.collage", "costs.yaml"))
    onnx.save(small_convolution(), model)
    native = "target tvm on llvm { rules op_call_by_kind(); }\n"
    spec.write_text(SPEC.replace("FUNCTION", "true") + native)
    costs.write_text('tvm: {ops: {"*": 1.0e-5}}\nt: {ops: {"*": 1.0e-6}}\n')
    return model, spec, costs


def test_the_commands_run_host_code_only_with_the_flag(files: tuple[Path, Path, Path]) -> None:
    model, spec, costs = files
    for command in (["candidates"], ["plan", "--costs", costs]):
        refused = said(*command, model, "-t", spec)
        assert (refused.code, refused.out) == (2, "")
        assert "predicate `fits`" in refused.err
        assert "`--allow-extern` allows it" in refused.err
        allowed = said(*command, model, "-t", spec, "--allow-extern", "--output-format", "json")
        assert allowed.code == 0, allowed.err
        assert '"target": "t"' in allowed.out
    assert (spec.parent / "imported").exists()


@pytest.mark.parametrize("command", ["why", "near"])
def test_what_explains_a_match_runs_host_code_only_with_the_flag(
    files: tuple[Path, Path, Path], command: str
) -> None:
    _, spec, _ = files
    model = spec.with_name("m.graph")
    model.write_text("graph { x: f32[4]; y = nn.relu(x); return y; }")
    asked = (command, f"{spec}#p", model, *(("--at", "y") if command == "why" else ()))

    refused = said(*asked)
    assert (refused.code, refused.out) == (2, "")
    assert "`--allow-extern` allows it" in refused.err
    allowed = said(*asked, "--allow-extern")
    assert allowed.code == 0, allowed.err
    assert ("p matches at `y`" if command == "why" else "p matches at 1 node") in allowed.out
    spec.write_text(SPEC.replace("FUNCTION", "why"))
    assert "x '' float32 (4,) 1 False None" in said(*asked, "--allow-extern").out


def test_the_check_of_a_pattern_table_needs_no_flag(tmp_path: Path) -> None:
    model = tmp_path / "m.graph"
    model.write_text("x: i32[4, 8]; w: i32[8, 8]; m = matmul(x, w); return m;")

    done = said("why", "cublas#cublas.matmul", model, "--at", "m")

    assert (done.code, done.err) == (1, "")
    assert "the check of cublas.matmul refuses" in done.out


def test_tests_of_a_file_run_host_code_only_with_the_flag(
    files: tuple[Path, Path, Path],
) -> None:
    _, spec, _ = files
    refused = said("test", spec)

    assert refused.code == 1
    assert "E0711" in refused.out
    assert "`--allow-extern` allows it" in refused.out
    assert said("test", spec, "--allow-extern").out == "1 test passed\n"


def test_propose_and_compile_take_the_same_flag(files: tuple[Path, Path, Path]) -> None:
    model, path, costs = files
    specs = list(load(path).values())
    asked = collage.from_onnx(model)
    with pytest.raises(PredicateError, match="not allowed"):
        collage.propose(asked, *specs)
    found = collage.propose(asked, *specs, allow_extern=True)
    assert "t" in {candidate.target for candidate in found}
    table = collage.CostTable.load(costs)
    with pytest.raises(PredicateError, match="not allowed"):
        collage.compile(model, specs, cost=table)

    compiled = collage.compile(model, specs, cost=table, allow_extern=True, race_seconds=0.1)

    mixed = next(c for c in compiled.report.contenders if c.name == "mixed")
    assert "t" in mixed.targets


def test_a_refusal_by_host_code_is_the_reason_that_a_node_is_not_covered() -> None:
    with pytest.raises(collage.UncoveredError, match="refuses"):
        searched(graph(), [spec("no")], lambda _: 1.0, lookup(allow_extern=True))
