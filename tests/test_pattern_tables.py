"""TVM's pattern tables: shipped as patterns, and partitioning as TVM does."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collage_dsl.engine.tables import table_lookup
from collage_dsl.engine.testing import run_tests
from collage_dsl.graph import Graph, Toolchain
from collage_dsl.language import check, load, parse_graph, read, to_text
from collage_dsl.language.loading import load_contents
from collage_dsl.language.resolve.pattern_tables import registered, table, table_names
from collage_dsl.resources import folder
from collage_dsl.rules import DFPattern, FusionSpec, MaxCoalesce, Pattern, Tagged, Trace, Union
from collage_dsl.rules.condition import Holds
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.predicate import Predicate, PredicateError, Question
from collage_dsl.source import Source
from tests.pattern_table_models import MODELS

SCRIPT = Path(__file__).parents[1] / "scripts" / "pattern_tables.py"

MODULES = {
    "cutlass": "tvm.relax.backend.cuda.cutlass",
    "cublas": "tvm.relax.backend.cuda.cublas",
    "cudnn": "tvm.relax.backend.cuda.cudnn",
    "tensorrt": "tvm.relax.backend.contrib.tensorrt",
    "clml": "tvm.relax.backend.adreno.clml",
    "coreml": "tvm.relax.backend.metal.coreml",
    "nnapi": "tvm.relax.backend.contrib.nnapi",
    "hipblas": "tvm.relax.backend.rocm.hipblas",
    "example_npu": "tvm.relax.backend.contrib.example_npu",
}

CASES = [(name, model) for name, models in MODELS.items() for model in models]


def graph_of(name: str, model: str) -> Graph:
    return parse_graph(MODELS[name][model], name="main")


@pytest.mark.engine
def test_the_tables_are_what_the_script_makes_of_the_installed_tvm() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr


def test_every_registered_pattern_is_in_a_table_and_most_can_be_used() -> None:
    tables = [table(name) for name in table_names()]

    assert sum(len(each.patterns) + len(each.refused) for each in tables) == 301
    assert sum(len(each.patterns) for each in tables) == 238
    assert {why.split(" `")[0] for each in tables for why in each.refused.values()} == {
        "it matches a",
        "no call matches it:",
        "its result is a field of a tuple, and TVM looks for patterns at calls only",
    }


@pytest.mark.parametrize("name", ["tensorrt", "nnapi"])
def test_a_table_without_checks_prints_and_reads_back_as_the_same(name: str) -> None:
    text = f'collage 1;\nimport pattern_table "{name}" as t;\ntarget a on llvm {{ rules t.all; }}\n'
    if name == "tensorrt":  # one of its patterns has a check
        text = text.replace("t.all", "union(dfpattern(t.clip), dfpattern(t.strided_slice))")
    specs = load(text=text)

    assert load(text=to_text(specs)) == specs


def test_the_rule_all_has_the_composites_in_the_order_of_tvm() -> None:
    labels = [tagged.label for tagged in table("cublas").all.rules]  # type: ignore[union-attr]

    assert labels[0] == "cublas.matmul_transposed_multiply"
    assert labels[-1] == "cublas.matmul"


def test_importing_a_table_needs_no_tvm() -> None:
    code = (
        "import sys; from collage_dsl.language import load;"
        'load(text=\'collage 1; import pattern_table "cutlass" as c;'
        " target t on cuda { rules c.all; }'); sys.exit('tvm' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


# Checks.


def check_of(pattern: Pattern) -> Predicate:
    return pattern.conditions[-1].condition.predicate  # type: ignore[union-attr]


@pytest.mark.engine
def test_a_check_is_asked_about_the_expressions_of_the_match() -> None:
    graph = graph_of("cublas", "leaking")
    fused, plain = (table("cublas").patterns[n] for n in ("matmul_bias_relu", "matmul"))
    attempt = Attempt()

    assert not matches(fused, graph, graph.index("r"), attempt, table_lookup)
    assert attempt.because == "the check of cublas.matmul_bias_relu refuses (at `r`)"
    assert matches(plain, graph, graph.index("m"), Attempt(), table_lookup)


@pytest.mark.engine
def test_a_check_that_refuses_says_so_with_the_name_of_the_pattern() -> None:
    graph = graph_of("cublas", "integers")
    attempt = Attempt()

    assert not matches(
        table("cublas").patterns["matmul"], graph, graph.index("m"), attempt, table_lookup
    )
    assert attempt.because == "the check of cublas.matmul refuses (at `m`)"


@pytest.mark.engine
def test_a_leaking_value_is_seen_by_the_check_itself() -> None:
    graph = graph_of("cublas", "leaking")
    predicate = check_of(table("cublas").patterns["matmul_bias"])
    operands = {"bias": "b", "lhs": "x", "rhs": "w", "root": "m"}
    asked = {name: graph.index(node) for name, node in operands.items()}

    def answer(*inside: str) -> str:
        question = Question(graph, graph.set_of(*inside), graph.index(inside[-1]), asked)
        return table_lookup(predicate)(question)

    assert answer("m", "a") == "the check of cublas.matmul_bias refuses"


@pytest.mark.engine
def test_the_value_of_a_scale_reaches_the_check() -> None:
    text = """
        x: f16[4,16]; w: f16[8,16]; t = permute_dims(w); m = matmul(x, t);
        s = const f32[] 0.5; z = const f16[] {}; y: f32[4,8] = dequantize(m, s, z) [axis=-1];
        return y;
    """
    pattern = table("cublas").patterns["matmul_transposed_dequantize"]

    def found(zero: str) -> int:
        graph = parse_graph(text.format(zero))
        return len(matches(pattern, graph, graph.index("y"), Attempt(), table_lookup))

    assert (found("0.0"), found("1.0"), found("")) == (1, 0, 0)


@pytest.mark.engine
def test_a_check_that_fails_is_an_error_with_the_pattern_and_the_node() -> None:
    graph = parse_graph("x: f32[*]; w: f32[8,8]; y: f32[*] = matmul(x, w); return y;")

    with pytest.raises(PredicateError, match=r"the check of cublas.matmul, asked at `y`, raised"):
        matches(table("cublas").patterns["matmul"], graph, 2, Attempt(), table_lookup)


@pytest.mark.engine
def test_a_source_that_no_table_has_is_an_error() -> None:
    assert registered("pattern_table:cublas.matmul") is not None
    assert registered("pattern_table:tensorrt.nn.relu") is None  # it has no check
    with pytest.raises(PredicateError, match="no pattern of TVM's tables has a check"):
        table_lookup(Predicate("p", (), "pattern_table:cublas.nothing"))


def test_a_table_is_asked_without_tvm_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "collage_dsl.targets.pattern_tables", None)

    with pytest.raises(PredicateError, match=r"pattern_table:cublas.matmul is asked of TVM: pip"):
        table_lookup(check_of(table("cublas").patterns["matmul"]))


@pytest.mark.engine
@pytest.mark.parametrize("name", table_names())
def test_the_tests_of_the_spec_that_ships_for_a_table_hold(name: str) -> None:
    path = folder("specs") / f"{name}.collage"
    outcomes = list(run_tests(load_contents(read(path))))

    assert outcomes
    assert [str(failure) for outcome in outcomes for failure in outcome.failures] == []


def found_in(module: Any, name: str) -> list[str]:
    """The labels of the composites of a table that match in `main`."""
    from collage_dsl.frontend.from_relax import from_relax

    trace = Trace(lookup=table_lookup)
    found = table(name).all.propose(from_relax(module), trace)
    return [composite.label for each in found for composite in each.composites]


@pytest.mark.engine
def test_a_check_is_asked_beside_the_call_of_a_compiled_function() -> None:
    from tvm import relax

    from collage_dsl.frontend.to_relax import to_relax

    text = "x: f32[4,64]; w: f32[64,8]; b: f32[8]; e = exp(x); m = matmul(e, w); y = add(m, b);"
    module = to_relax(parse_graph(f"{text} return y;", name="main"))
    kept = ["relax.matmul", "relax.add"]
    compiled = relax.transform.LegalizeOps(skip_ops=kept)(module)

    assert "call_tir" in str(compiled)
    assert found_in(compiled, "cublas") == ["cublas.matmul_bias", "cublas.matmul"]
    assert found_in(compiled, "cublas") == found_in(module, "cublas")


@pytest.mark.engine
def test_a_function_without_dataflow_blocks_is_asked_as_if_it_had_one() -> None:
    from tvm import relax

    from collage_dsl.frontend.to_relax import to_relax

    module = to_relax(graph_of("cublas", "dense"))
    plain = relax.transform.ToNonDataflow()(module)

    assert found_in(plain, "cublas") == found_in(module, "cublas")


@pytest.mark.engine
def test_what_a_call_takes_as_a_tuple_reaches_the_check() -> None:
    from collage_dsl.graph import Form, members
    from collage_dsl.targets.pattern_tables import _program

    graph = parse_graph(MODELS["tensorrt"]["network"])
    program = _program(graph)
    (written,) = [i for i in members(graph.computed) if program.variables[i] is None]

    assert graph.nodes[written].form is Form.TUPLE
    assert [str(each) for each in program.values[written].fields] == ["p", "q"]


# Against TVM.


def composites(graph: Graph, name: str) -> list[tuple[str, ...]]:
    """The regions that `max_coalesce` makes of a table's composites, by their labels."""
    trace = Trace(lookup=table_lookup)
    rule = MaxCoalesce(table(name).all, "first")
    found = rule.propose(graph, trace)
    return sorted(tuple(sorted(c.label for c in region.composites)) for region in found)


def labels_of(region: Any) -> Iterator[str]:
    """The label of each composite that a region calls."""
    from tvm import ir, relax

    labels = {}
    for binding in (each for block in region.body.blocks for each in block.bindings):
        if isinstance(binding.value, relax.Function):
            labels[hash(binding.var)] = str(binding.value.attrs["Composite"])
        elif isinstance(binding.value, ir.Call):
            yield labels[hash(binding.value.op)]


def own_patterns(name: str) -> Any:
    """The patterns that the backend's own partitioner gives to FuseOpsByPattern, in its order."""
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    module = importlib.import_module(MODULES[name])
    return module.clml_pattern_table() if name == "clml" else get_patterns_with_prefix(name)


def composites_of_tvm(graph: Graph, name: str) -> list[tuple[str, ...]]:
    """The same of FuseOpsByPattern and MergeCompositeFunctions."""
    from tvm import ir, relax

    from collage_dsl.frontend.to_relax import to_relax

    patterns = own_patterns(name)
    module = relax.transform.FuseOpsByPattern(
        patterns, bind_constants=False, annotate_codegen=False
    )(to_relax(graph))
    module = relax.transform.MergeCompositeFunctions()(module)
    called = [
        b.value.op
        for block in module["main"].body.blocks
        for b in block.bindings
        if isinstance(b.value, ir.Call) and isinstance(b.value.op, ir.GlobalVar)
    ]
    regions = [tuple(sorted(labels_of(module[var]))) for var in called]
    return sorted(regions)


@pytest.mark.engine
@pytest.mark.parametrize(("name", "model"), CASES)
def test_the_regions_of_a_table_are_those_of_tvm(name: str, model: str) -> None:
    graph = graph_of(name, model)

    assert composites(graph, name) == composites_of_tvm(graph, name)
    assert composites(graph, name)  # something was there to compare


@pytest.mark.engine
def test_a_composite_gives_no_inner_value_away_where_one_of_tvm_may() -> None:
    graph = parse_graph(
        """
        x: f32[1,8,8,8]; w: f32[8,8,1,1];
        c = nn.conv2d(x, w); r = nn.relu(c); y = multiply(r, c);
        return y;
        """,
        name="main",
    )

    assert composites_of_tvm(graph, "clml") == [
        ("openclml.relax.multiply", "openclml.relu.nn.conv2d")
    ]
    assert composites(graph, "clml") == [
        ("openclml.nn.conv2d", "openclml.relax.multiply", "openclml.relax.nn.relu")
    ]


def equations(pattern: Pattern) -> Pattern:
    """`pattern` without its check, which is host code."""
    kept = tuple(w for w in pattern.conditions if not isinstance(w.condition, Holds))
    return replace(pattern, conditions=kept)


KINDS = {"cublas": "cuda", "cudnn": "cuda", "cutlass": "cuda", "hipblas": "rocm"}
"""The kinds of targets of libraries that run on no processor."""


@pytest.mark.parametrize("name", table_names())
def test_the_equations_of_a_pattern_are_what_a_file_could_say(name: str) -> None:
    patterns = [equations(pattern) for pattern in table(name).patterns.values()]
    rule = Union(tuple(Tagged(pattern.name, DFPattern(pattern)) for pattern in patterns))
    spec = FusionSpec(Toolchain("t", KINDS.get(name, "llvm"), compiler=name), rule)
    text = to_text(spec)

    found = {diagnostic.code for diagnostic in check(Source("table.collage", text))}
    assert found == ({"E0312"} if name == "clml" else set()), "some of its patterns never match"
    assert found or load(text=text) == {"t": spec}


@pytest.mark.parametrize("name", table_names())
def test_the_text_of_a_table_is_read_back_as_it_was(name: str) -> None:
    text = f'collage 1; import pattern_table "{name}" as all; target t on llvm {{ rules all.all; }}'
    specs = load(text=text)

    assert load(text=to_text(specs)) == specs


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tensorrt", "clml", "nnapi", "coreml", "cudnn", "example_npu"])
@pytest.mark.parametrize("model", ["squeezenet", "inception_v1", "shufflenet"])
def test_the_regions_of_a_standard_model_are_those_of_tvm(name: str, model: str) -> None:
    from collage_dsl.frontend.light import light_model
    from collage_dsl.frontend.onnx import from_onnx

    graph = from_onnx(light_model(model))

    assert composites(graph, name) == composites_of_tvm(graph, name)
