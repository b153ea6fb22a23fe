"""Pattern tables that users' code registers with TVM: imported, gathered, and asked."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tvm.relax.dpl import is_const, is_op, is_shape, is_tuple, wildcard

import collage_dsl as collage
from collage_dsl import builder
from collage_dsl.engine.spec_files import load
from collage_dsl.engine.specs import specs_of
from collage_dsl.engine.tables import registered_tables, table_lookup
from collage_dsl.graph import CandidateKernel
from collage_dsl.language import check, parse_graph
from collage_dsl.language import load as load_language
from collage_dsl.language.resolve.pattern_tables import NoTableError, Table, numbered
from collage_dsl.rules.predicate import Predicate, PredicateError
from collage_dsl.source import Source
from collage_dsl.targets.attach import TargetError
from tests.cases import slow
from tests.commands import collage as command
from tests.commands import said
from tests.test_gather import Named

GRAPH = """
x: f32[4,8]; w: f32[8,6]; u: f32[6,5]; b: f32[6];
m = matmul(x, w); a = add(m, b); r = nn.relu(a); n = matmul(r, u); return n;
"""


def even_columns(context: Any) -> bool:
    """A check as users write them: the weight has an even number of columns."""
    columns = context.annotated_expr["weight"].ty.shape[1]
    return int(columns) % 2 == 0


def dense_patterns(table: str) -> list[Any]:
    """A plain product, one with bias and a check, and both again with a relu."""
    x, w, b = wildcard(), wildcard(), wildcard()
    dense = is_op("relax.matmul")(x, w)
    biased = is_op("relax.add")(dense, b)
    fused = is_op("relax.nn.relu")(biased)
    names = {"input": x, "weight": w, "bias": b}
    return [
        (f"{table}.dense", dense, {"weight": w}, even_columns),
        (f"{table}.dense_bias", biased, names, even_columns),
        (f"{table}.dense.bias-relu", fused, {**names, "root": fused}, even_columns),
        (f"{table}.relu", is_op("relax.nn.relu")(wildcard())),
    ]


@pytest.fixture(scope="module")
def acme() -> str:
    """The name of a table that is registered."""
    register_patterns(dense_patterns("acme"))
    return "acme"


def proposed(spec: collage.FusionSpec, text: str = GRAPH) -> list[tuple[frozenset[str], str]]:
    found: tuple[CandidateKernel, ...] = collage.propose(parse_graph(text, name="main"), spec)
    return [(candidate.nodes, candidate.label) for candidate in found]


SPEC = """\
collage 1;
import pattern_table "acme" as acme;
target lib on llvm { compiler "acme"; rules acme.all; }
"""


# Importing.


def test_a_registered_table_is_imported_as_one_that_ships(acme: str) -> None:
    spec = collage.load(text=SPEC)["lib"]

    assert proposed(spec) == [
        ({"m"}, "acme.dense"),
        ({"m", "a"}, "acme.dense_bias"),
        ({"m", "a", "r"}, "acme.dense.bias-relu"),
        ({"r"}, "acme.relu"),
    ]


def test_the_names_of_a_registered_table_are_checked(acme: str) -> None:
    text = SPEC.replace("acme.all", "union(dfpattern(acme.dense_bias_relu), dfpattern(acme.dens))")

    found = check(Source("t.collage", text), tables=registered_tables())

    assert [(each.code, each.span.text, each.help) for each in found] == [
        ("E0206", "acme.dens", "did you mean `acme.dense`?")
    ]


def test_names_are_imported_one_by_one_too(acme: str) -> None:
    text = """collage 1;
import pattern_table "acme" only (dense_bias as biased, relu);
pattern two(x, w, b) { y = relu(biased(x, w, b)); yield y; }
target lib on llvm { rules dfpattern(two); }
"""
    assert [nodes for nodes, _ in proposed(collage.load(text=text)["lib"])] == [{"m", "a", "r"}]


def test_files_that_import_each_other_know_one_table(acme: str, tmp_path: Path) -> None:
    (tmp_path / "parts.collage").write_text(
        'collage 1;\nimport pattern_table "acme" as acme;\nrule parts = acme.all;\n'
    )
    text = SPEC.replace("acme.all", "union(acme.all, p.parts)")
    main = tmp_path / "main.collage"
    main.write_text(text.replace("target", 'import "parts.collage" as p;\ntarget'))

    assert proposed(collage.load(main)["lib"]) == proposed(collage.load(text=SPEC)["lib"])


def test_a_spec_that_uses_a_registered_table_reads_back_without_it(acme: str) -> None:
    spec = collage.load(text=SPEC)["lib"]
    text = collage.to_text(spec)

    assert 'from "pattern_table:acme.dense.bias-relu";' in text
    assert load_language(text=text)["lib"] == spec
    assert collage.extract(collage.attach("llvm", spec)) == spec


def test_the_builder_has_registered_tables(acme: str) -> None:
    table = builder.pattern_table("acme")

    assert set(table) == {"dense", "dense_bias", "dense_bias_relu", "relu", "all"}
    with pytest.raises(ValueError, match=r"no pattern table `acm`: .*import"):
        builder.pattern_table("acm")


def test_a_file_that_is_a_target_may_import_a_registered_table(acme: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.collage"
    path.write_text(SPEC)

    assert specs_of([path]) == list(collage.load(text=SPEC).values())


# Against TVM.


def test_the_rule_all_prefers_what_tvm_prefers(acme: str) -> None:
    preferred = [str(pattern.name) for pattern in get_patterns_with_prefix("acme.")]

    everything = registered_tables()("acme").all

    assert [tagged.label for tagged in everything.rules] == preferred  # type: ignore[union-attr]


@pytest.mark.parametrize("text", [GRAPH, GRAPH.replace("6", "7")])
def test_what_tvm_fuses_by_the_patterns_is_proposed(acme: str, text: str) -> None:
    from collage_dsl.frontend.to_relax import to_relax

    module = to_relax(parse_graph(text, name="main"))
    patterns = get_patterns_with_prefix("acme.")
    fused = relax.transform.FuseOpsByPattern(patterns)(module)
    labels = {str(f.attrs["Composite"]) for f in fused.functions.values() if "Composite" in f.attrs}

    assert labels
    assert labels <= {label for _, label in proposed(collage.load(text=SPEC)["lib"], text)}


# Checks.


def test_the_check_of_a_registered_pattern_is_asked_without_a_flag(acme: str) -> None:
    spec = collage.load(text=SPEC)["lib"]

    assert proposed(spec, GRAPH.replace("6", "7")) == [({"r"}, "acme.relu")]


def test_a_check_sees_the_values_of_large_constants() -> None:
    w = is_const()
    asked: list[float] = []

    def sums(context: Any) -> bool:
        asked.append(float(context.annotated_expr["w"].value.numpy().sum()))
        return True

    register_patterns([("summing.dense", is_op("relax.matmul")(wildcard(), w), {"w": w}, sums)])
    spec = collage.gather({"kind": "llvm", "feature.compiler": "summing"})
    builder_ = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 64), "float32"))
    with builder_.function("main", [x]):
        with builder_.dataflow():
            weight = relax.const(np.full((64, 32), 0.5, np.float32))
            y = builder_.emit_output(relax.op.matmul(x, weight))
        builder_.emit_func_output(y)

    assert len(collage.propose(collage.from_relax(builder_.get(), "main"), spec)) == 1
    assert asked == [64 * 32 * 0.5]


def test_of_two_patterns_of_one_name_each_has_its_own_check() -> None:
    x, y = wildcard(), wildcard()
    register_patterns(
        [
            ("twins.unary", is_op("relax.exp")(x), {"x": x}, lambda _: False),
            ("twins.unary", is_op("relax.tanh")(y), {"y": y}, lambda _: True),
        ]
    )
    spec = collage.gather({"kind": "llvm", "feature.compiler": "twins"})

    found = proposed(spec, "x: f32[4]; a = exp(x); b = tanh(a); return b;")

    assert found == [({"b"}, "twins.unary")]
    assert "pattern_table:twins.unary-2" in collage.to_text(spec)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a.b", ("a.b", 0)),
        ("a.b-2", ("a.b", 1)),
        ("a.b-11", ("a.b", 10)),
        ("my-lib.b", ("my-lib.b", 0)),
        ("my-lib.b-1", ("my-lib.b-1", 0)),
        ("my-lib.b-c-3", ("my-lib.b-c", 2)),
    ],
)
def test_the_place_among_namesakes_is_read_off_the_end(name: str, wanted: tuple[str, int]) -> None:
    assert numbered(name) == wanted


def test_a_check_that_nothing_in_the_process_registers_says_what_to_do() -> None:
    for source, how in [
        ("pattern_table:nobody.dense", "import its module first"),
        ("pattern_table:nobody.tables:nobody.dense", "`allow_extern` lets its module be imported"),
    ]:
        with pytest.raises(PredicateError, match=how):
            table_lookup(Predicate("p", (), source))
    with pytest.raises(PredicateError, match=r"`nobody\.tables` cannot be imported"):
        table_lookup(Predicate("p", (), source), allow_extern=True)


# Gathering.


@pytest.mark.parametrize("backends", [[], [Named("acme")]])
def test_a_registered_table_is_the_spec_of_its_compiler(acme: str, backends: list[Any]) -> None:
    target = {"kind": "llvm", "mcpu": "znver3", "feature.compiler": "acme"}

    found = collage.gather(target, backends=backends)

    assert (found.name, found.target.compiler, found.target.kind) == ("acme", "acme", "llvm")
    assert found.target.options == {"mcpu": "znver3"}
    assert proposed(found) == proposed(collage.load(text=SPEC)["lib"])
    assert collage.extract(collage.attach(target, found)) == found


def test_a_table_that_only_begins_alike_is_another(acme: str) -> None:
    with pytest.raises(TargetError, match="no spec ships for the compiler `acm`"):
        collage.gather({"kind": "llvm", "feature.compiler": "acm"})


# What the language cannot say.


def refused_patterns() -> list[tuple[str, Any, str]]:
    x = wildcard()
    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    relu, gelu = is_op("relax.nn.relu"), is_op("relax.nn.gelu")
    named = {"in": x}
    return [
        ("either", relu(x) | gelu(x), "its alternatives differ in structure"),
        ("callee", (relu | gelu)(wildcard()), "it calls what is no operator"),
        ("unlike", relu(~gelu(wildcard())), "a NotPattern cannot be said"),
        ("attribute", conv.has_attr({"group": 1}), "`nn.conv2d` has no attribute `group`"),
        ("value", conv.has_attr({"groups": "x"}), "`groups` is a number, which"),
        ("nothing", conv.has_attr({"groups": None}), "`groups` of `nn.conv2d` always has a value"),
        (
            "loose",
            wildcard().has_attr({"groups": 1}),
            "it asks for an attribute of what is no call",
        ),
        ("few", is_op("relax.matmul")(wildcard()), "no call matches it"),
        ("many", is_op("relax.print")(wildcard()), "takes any number of operands"),
        ("free", relu(wildcard().has_shape([tirx.Var("n", "int64")])), "a shape that is not known"),
        ("bare", wildcard(), "has no operator in it"),
        ("word", relu(x), "no file can say `in`", named, lambda _: True),
        ("odd name", relu(x), "no file can say its name", {"x": x}, lambda _: True),
    ]


@pytest.fixture(scope="module")
def awkward() -> Table:
    register_patterns(
        [(f"awkward.{name}", pattern, *rest) for name, pattern, _, *rest in refused_patterns()]
        + [
            ("awkward.all", is_op("relax.exp")(wildcard())),
            ("awkward.a.b", is_op("relax.tanh")(wildcard())),
            ("awkward.a_b", is_op("relax.abs")(wildcard())),
            ("awkward.2 d", is_op("relax.sqrt")(wildcard())),
            (
                "awkward.attributes",
                is_op("relax.nn.conv2d")(wildcard(), wildcard()).has_attr(
                    {"groups": 1, "data_layout": "NHWC", "strides": [1, 1], "out_dtype": "float16"}
                ),
            ),
            ("awkward.typed", is_op("relax.abs")(wildcard().has_dtype("float16"))),
            ("awkward.tuple", is_op("relax.concat")(is_tuple([wildcard(), wildcard()]))),
            ("awkward.list", is_op("relax.reshape")(wildcard(), is_shape([4, 2]))),
        ]
    )
    return registered_tables()("awkward")


@pytest.mark.parametrize(
    ("name", "reason"), [(name, reason) for name, _, reason, *_ in refused_patterns()]
)
def test_a_pattern_that_the_language_cannot_say_is_refused_with_a_reason(
    awkward: Table, name: str, reason: str
) -> None:
    assert reason in awkward.refused[name.replace(" ", "_")]


def test_every_other_pattern_has_a_name_that_files_can_say(awkward: Table) -> None:
    names = {"all_2", "a_b", "a_b_2", "_2_d", "attributes", "typed", "tuple", "list"}

    assert set(awkward.patterns) == names
    spec = collage.gather({"kind": "llvm", "feature.compiler": "awkward"})
    assert load_language(text=collage.to_text(spec))["awkward"] == spec
    text = collage.to_text(spec)
    for asked in ["groups == 1", 'data_layout == "NHWC"', "strides == [1, 1]", "out_dtype == f16"]:
        assert asked in text
    assert "= reshape(x, [4, 2]);" in text


def test_using_a_refused_pattern_says_why(awkward: Table) -> None:
    text = 'collage 1; import pattern_table "awkward" as a; rule r = dfpattern(a.either);'

    found = check(Source("t.collage", text), tables=registered_tables())

    assert [each.code for each in found] == ["E0811"]


def test_a_table_of_which_nothing_can_be_said_is_none() -> None:
    register_patterns([("hopeless.any", wildcard())])

    with pytest.raises(NoTableError, match="the language can say none of its patterns; of `any`"):
        registered_tables()("hopeless")
    with pytest.raises(TargetError, match="the language can say none of its patterns"):
        collage.gather({"kind": "llvm", "feature.compiler": "hopeless"})


# The page.


def test_the_example_of_the_page_registers_a_table() -> None:
    page = (Path(__file__).parent.parent / "docs" / "pattern-tables.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    exec(code, {})  # the page's own code

    spec = collage.gather({"kind": "llvm", "feature.compiler": "mylib"})
    assert proposed(spec) == []
    assert proposed(spec, GRAPH.replace("6", "16")) == [({"m"}, "mylib.dense")]


# Modules that register tables.

MODULE = """\
from tvm.relax.backend.pattern_registry import register_patterns
from tvm.relax.dpl import is_op, wildcard

x, w = wildcard(), wildcard()
dense = is_op("relax.matmul")(x, w)
even = lambda context: int(context.annotated_expr["w"].ty.shape[1]) % 2 == 0
register_patterns([("NAME.dense", dense, {"w": w}, even)])
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module that registers the table `cli_lib`, and a spec that names both."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    (tmp_path / "cli_tables.py").write_text(MODULE.replace("NAME", "cli_lib"))
    (tmp_path / "lib.collage").write_text(
        SPEC.replace('"acme" as', '"cli_tables:cli_lib" as').replace('r "acme"', 'r "cli_lib"')
        + 'test "even" {\n  graph { x: f32[4,8]; w: f32[8,6]; y = matmul(x, w); return y; }\n'
        + "  expect candidates(lib) == 1;\n}\n"
    )
    (tmp_path / "odd.graph").write_text("x: f32[4,8]; w: f32[8,5]; y = matmul(x, w); return y;")
    return tmp_path


@pytest.mark.parametrize(
    "asked",
    [
        ("check",),
        slow(("test",)),
        ("convert", "--to", "json"),
        slow(("embed",)),
        slow(("plan", "m", "-t")),
    ],
)
def test_a_command_imports_the_module_of_a_table_only_with_the_flag(
    files: Path, asked: tuple[str, ...]
) -> None:
    done = said(*asked, files / "lib.collage")

    assert done.code == 1
    assert "E0810" in done.out + done.err
    assert "--allow-extern allows it" in done.out + done.err
    if asked[0] != "plan":  # which needs a model as well
        allowed = command(*asked, files / "lib.collage", "--allow-extern")
        assert allowed.code == 0, allowed.out + allowed.err


def test_a_converted_spec_still_finds_the_check_of_its_table(files: Path) -> None:
    text = command("convert", "--to", "collage", files / "lib.collage", "--allow-extern").out
    spec = files / "linked.collage"
    spec.write_text(text)
    asked = ("why", spec, files / "odd.graph", "--at", "y")

    assert 'from "pattern_table:cli_tables:cli_lib.dense";' in text
    assert said("check", spec).code == 0
    refused, allowed = said(*asked), command(*asked, "--allow-extern")
    assert refused.code == 2
    assert "`--allow-extern` lets its module be imported" in refused.err
    assert "the check of cli_lib.dense refuses" in allowed.out


def test_in_python_a_flag_imports_the_module_or_one_imports_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "flagged_tables.py").write_text(MODULE.replace("NAME", "flagged"))
    text = SPEC.replace('"acme" as', '"flagged_tables:flagged" as')
    with pytest.raises(collage.RuleError, match="E0810"):
        load(text=text)
    assert "flagged_tables" not in sys.modules

    spec = load(text=text, allow_extern=True)["lib"]

    assert load(text=text)["lib"] == spec, "now it is imported"
    plain = load(text=SPEC.replace('"acme" as', '"flagged" as'))["lib"]
    assert proposed(plain) == proposed(spec) == [({"m"}, "flagged.dense")]


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ("no_such_module:lib", "`no_such_module` cannot be imported: ModuleNotFoundError"),
        ("json:lib", "`json` registers no pattern whose name begins with `lib.`"),
        (":lib", "for a table of your own, in Python import the module"),
        (".json:lib", "`.json` cannot be imported: TypeError"),
    ],
)
def test_what_is_wrong_with_a_module_is_said(said: str, note: str) -> None:
    text = f'collage 1; import pattern_table "{said}" as t; rule r = t.all;'

    (found,) = check(Source("t.collage", text), tables=registered_tables(allow_extern=True))

    assert (found.code, found.span.text) == ("E0810", f'"{said}"')
    assert note in found.notes[0].message


# Without TVM.


def test_a_table_that_does_not_ship_needs_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "collage_dsl.targets.registered_tables", None)

    (found,) = check(Source("t.collage", SPEC), tables=registered_tables())

    assert found.code == "E0810"
    assert 'pip install "collage_dsl[tvm]"' in found.notes[0].message
    assert load(text=SPEC.replace('"acme" as', '"cutlass" as')), "those that ship need none"


def test_a_name_that_is_not_there_does_not_cost_the_import_of_tvm() -> None:
    program = (
        "import sys; import collage_dsl as collage\n"
        f"try: collage.load(text={SPEC!r})\n"
        "except collage.RuleError as error: assert 'E0810' in str(error)\n"
        "else: sys.exit('there was such a table')\n"
        "sys.exit('TVM was imported' if 'tvm' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
