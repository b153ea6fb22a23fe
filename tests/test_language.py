"""Loading files: what comes back, what is raised, and what holds for every text."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from collage_dsl.diagnostics import RuleError
from collage_dsl.graph import Kind
from collage_dsl.language import UnreadableError, check, load
from collage_dsl.language.messages.codes import CODES
from collage_dsl.rules import (
    FUSIBLE,
    TVM_DEFAULT,
    CombineByPrimitives,
    Constants,
    KindPair,
    Limits,
    OnlyValid,
    OpCallByKind,
    Tagged,
    Union,
)
from collage_dsl.source import Source

SPEC = """\
collage 1;
pattern relu(x) { y = nn.relu(x); yield y; }
rule library = union(composite("lib.relu", dfpattern(relu)), op_call_by_kind(anchor));
target lib on llvm(mcpu: "znver4", num_cores: 2) {
  compiler "lib";
  rules combine_by_primitives(library, using: [kind(anchor -> broadcast), constants], max_nodes: 4);
  limits { max_depth 8; taps allowed; }
  after max_coalesce();
}
rule every = op_call_by_kind(elementwise, broadcast, injective, reduce, anchor, opaque);
target native on llvm {
  rules only_valid(
    combine_by_primitives(every, using: tvm_default, max_depth: 8), max_exits: any);
  fallback;
}
"""


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check(Source("t.collage", text))]


def test_the_specs_of_a_file_are_in_its_order() -> None:
    specs = load(text=SPEC)

    assert list(specs) == ["lib", "native"]
    assert [spec.name for spec in specs.values()] == ["lib", "native"]


def test_a_target_says_everything_about_its_kernels() -> None:
    spec = load(text=SPEC)["lib"]

    assert spec.target.kind == "llvm"
    assert spec.target.compiler == "lib"
    assert spec.target.options == {"mcpu": "znver4", "num_cores": 2}
    assert spec.limits == Limits(max_exits=1, max_depth=8, taps=True)
    assert (spec.coalesce, spec.fallback) == (True, False)


def test_rules_are_what_their_text_says() -> None:
    lib, native = load(text=SPEC).values()

    assert isinstance(lib.rule, CombineByPrimitives)
    assert lib.rule.using == (KindPair(Kind.ANCHOR, Kind.BROADCAST), Constants())
    assert lib.rule.max_nodes == 4
    assert isinstance(lib.rule.rule, Union)
    assert isinstance(lib.rule.rule.rules[0], Tagged)
    assert lib.rule.rule.rules[1] == OpCallByKind((Kind.ANCHOR,))
    assert native.rule == OnlyValid(
        CombineByPrimitives(OpCallByKind((*FUSIBLE, Kind.OPAQUE)), TVM_DEFAULT, max_depth=8),
        Limits(max_exits=None),
    )


def test_two_rules_that_say_the_same_are_equal_wherever_they_stand() -> None:
    moved = SPEC.replace("\npattern", "\n\n# moved\n  pattern").replace("; ", ";\n\t")

    assert load(text=moved) == load(text=SPEC)


def test_rules_with_numbers_of_other_types_are_not_equal() -> None:
    text = """collage 1;
    pattern rounded(x) { y = nn.relu(x); where dim(x, 0) * (8 / 16) < 1; yield y; }
    pattern halved(x) { y = nn.relu(x); where dim(x, 0) * (8.0 / 16) < 1; yield y; }
    target lib on llvm { rules union(dfpattern(rounded), dfpattern(halved)); }
    """
    rule = load(text=text)["lib"].rule

    assert isinstance(rule, Union)
    assert rule.rules[0] != rule.rules[1]
    assert [each.code for each in check(Source("a.collage", text))] == ["W0337"]


def test_a_name_means_its_rule() -> None:
    text = SPEC.replace("combine_by_primitives(library", "combine(copy").replace(
        "target lib", "rule copy = library;\ntarget lib"
    )

    assert load(text=text)["lib"] == load(text=SPEC)["lib"]


def test_a_file_is_loaded_from_its_path(tmp_path: Path) -> None:
    file = tmp_path / "a.collage"
    file.write_bytes(b"\xef\xbb\xbf" + SPEC.replace("\n", "\r\n").encode())

    assert load(file) == load(str(file)) == load(text=SPEC)


def test_a_file_without_targets_has_no_specs() -> None:
    assert load(text="collage 1;") == {}


def test_load_takes_a_path_or_a_text() -> None:
    with pytest.raises(TypeError):
        load()
    with pytest.raises(TypeError):
        load("a.collage", text=SPEC)


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there is no such file"):
        load(tmp_path / "missing.collage")


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="it is a folder"):
        load(tmp_path)


def test_a_file_that_is_not_text_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "a.collage"
    file.write_bytes(b"collage 1;\n# \xff")

    with pytest.raises(UnreadableError, match=r"not UTF-8 \(byte 13\)"):
        load(file)


def test_a_file_of_more_than_a_megabyte_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.collage"
    file.write_text("collage 1;\n" + "# padding é\n" * 500_000, "utf-8")

    with pytest.raises(RuleError) as caught:
        load(file)
    assert [d.code for d in caught.value.diagnostics] == ["E0106"]


def test_an_error_shows_every_diagnostic_in_file_order() -> None:
    text = "collage 1;\nrule a = union(b);\npattern p(x) { y = nn.rleu(x); yield y }\n"

    with pytest.raises(RuleError) as caught:
        load(text=text, name="two.collage")

    assert str(caught.value) == dedent("""\
        two.collage:2:16: error[E0206]: no rule is named `b`
        2 | rule a = union(b);
                           ^

        two.collage:3:20: error[E0201]: unknown operator `nn.rleu`
        3 | pattern p(x) { y = nn.rleu(x); yield y }
                               ^^^^^^^
        help: did you mean `nn.relu`?

        two.collage:3:39: error[E0101]: expected `;` after this result
        3 | pattern p(x) { y = nn.rleu(x); yield y }
                                                  ^
        help: insert `;` here""")


def test_warnings_do_not_keep_a_file_from_loading() -> None:
    text = SPEC.replace("rule library", "pattern unused(x) { y = exp(x); yield y; }\nrule library")

    assert codes(text) == ["W0405", "W0422"]
    assert list(load(text=text)) == ["lib", "native"]


def test_five_independent_mistakes_are_five_diagnostics_at_their_places() -> None:
    text = dedent("""\
        collage 1;
        pattern conv(x, w: const) {
          k = nn.conv2d(x, w) [group == 1];
          s = add(k, x)
          y = matmul(s);
          where dim(x, 0) == "a";
          yield y;
        }
        rule library = composite(conv, dfpattern(conv));
        target cpu on llvm { rules library; }
        """)
    found = check(Source("t.collage", text))

    assert [(d.code, str(d.span)) for d in found] == [
        ("E0204", "t.collage:3:24"),
        ("E0101", "t.collage:4:16"),
        ("E0203", "t.collage:5:7"),
        ("E0303", "t.collage:6:9"),
        ("E0404", "t.collage:9:26"),
    ]


@pytest.mark.parametrize("end", ["", " ", "\n", "\r\n", "\t\r\n\r\n", "  # comment"])
def test_the_end_of_a_file_makes_no_difference(end: str) -> None:
    (diagnostic,) = check(Source("t", f"collage 1;\nrule a = op_call_by_kind(){end}"))

    assert (diagnostic.code, str(diagnostic.span)) == ("E0101", "t:2:27")


def test_line_breaks_of_windows_do_not_move_carets() -> None:
    text = "collage 1;\r\nrule a = union(\r\n  b);\r\n"
    (diagnostic,) = check(Source("t", text))

    assert str(diagnostic) == "t:3:3: error[E0206]: no rule is named `b`\n3 |   b);\n      ^"


def test_carets_after_wide_characters_and_tabs_are_below_what_they_mean() -> None:
    (diagnostic,) = check(Source("t", 'collage 1;\nrule a = \tcomposite("卷积é", b);'))

    assert str(diagnostic).split("\n")[1:] == [
        '2 | rule a =     composite("卷积é", b);',
        " " * len("2 | rule a =     composite('WWWWe', ") + "^",
    ]


def test_what_a_terminal_would_act_upon_is_not_shown() -> None:
    (diagnostic,) = check(Source("t", "collage 1;\nrule a = union(\x1b[31m);"))

    assert "\x1b" not in str(diagnostic).split("\n")[1]


def test_a_long_line_is_cut_around_the_mistake() -> None:
    many = ", ".join(["op_call_by_kind()"] * 400)
    (diagnostic,) = check(Source("t", f"collage 1;\nrule a = union({many}, b, {many});"))
    shown, carets = str(diagnostic).split("\n")[1:3]

    assert len(shown) < 200
    assert shown[carets.index("^")] == "b"


def test_of_two_definitions_the_later_is_wrong() -> None:
    text = "collage 1;\nrule f = op_call_by_kind();\npattern f(x) { y = exp(x); yield y; }"
    (diagnostic,) = check(Source("t", text))

    assert (diagnostic.code, str(diagnostic.span)) == ("E0202", "t:3:9")
    assert [str(note.span) for note in diagnostic.notes] == ["t:2:6"]


# Depth and size: what recursion would not survive is a diagnostic.


@pytest.mark.parametrize("depth", [10, 190])
def test_rules_nest(depth: int) -> None:
    rule = "union(" * depth + "op_call_by_kind()" + ")" * depth

    assert codes(f"collage 1; rule a = {rule}; target t on llvm {{ rules a; }}") == []


@pytest.mark.parametrize(
    "text",
    [
        "rule a = " + "union(" * 300 + "op_call_by_kind()" + ")" * 300 + ";",
        "rule a = " + "(" * 300 + "op_call_by_kind()" + ")" * 300 + ";",
        "rule a = " + "(" * 20_000,
        "rule a = " + "f(" * 20_000,
        "rule a = " + "[" * 20_000,
        "pattern p(x) { y = " + "exp(" * 150 + "x" + ")" * 150 + "; yield y; }",
        "pattern p(x) { where " + "not " * 20_000 + "rank(x) == 4; y = exp(x); yield y; }",
        "pattern p(x) { where rank(x)" + " + 1" * 20_000 + " == 4; y = exp(x); yield y; }",
        "pattern p(x) { where rank(x) == 4" + " or rank(x) == 4" * 5_000 + "; yield y; }",
        "pattern p(x) { where rank(x) == " + "-" * 20_000 + "4; y = exp(x); yield y; }",
    ],
    ids=range(10),
)
def test_what_is_nested_too_deeply_is_a_diagnostic(text: str) -> None:
    found = codes(f"collage 1; {text}")

    assert found
    assert set(found) <= {"E0105", "E0101", "E0207"}


def test_long_chains_of_bindings_are_too_deep_to_match() -> None:
    bindings = "".join(f"v{i + 1} = exp(v{i});" for i in range(2_000))

    assert codes(f"collage 1; pattern p(v0) {{ {bindings} yield v2000; }}") == ["E0105"]


def test_long_chains_of_names_are_too_deep() -> None:
    rules = "".join(f"rule r{i} = r{i + 1};" for i in range(2_000))

    assert set(codes(f"collage 1; {rules} rule r2000 = op_call_by_kind();")) == {"E0105"}


def test_rules_that_double_are_too_large() -> None:
    rules = "".join(f"rule r{i} = union(r{i + 1}, max_coalesce(r{i + 1}));" for i in range(40))
    found = codes(f"collage 1; {rules} rule r40 = op_call_by_kind();")

    assert set(found) == {"E0406"}


def test_a_check_ends_after_a_hundred_errors() -> None:
    assert codes("collage 1;\n" + "rule r = ;\n" * 100) == ["E0101"] * 100
    assert codes("collage 1;\n" + "rule r = ;\n" * 3_000) == ["E0101"] * 100 + ["E0108"]


def test_a_thousand_warnings_are_shown() -> None:
    used = "target t on llvm { rules op_call_by_kind(); }\n"
    rules = [f"rule r{k} = op_call_by_kind();\n" for k in range(3_000)]

    assert codes("collage 1;\n" + used + "".join(rules[:1_000])) == ["W0405"] * 1_000
    assert codes("collage 1;\n" + used + "".join(rules)) == ["W0405"] * 1_000 + ["W0109"]


def test_a_file_of_more_words_than_can_be_checked_in_time_is_refused() -> None:
    rules = "rule r = op_call_by_kind();\n"

    assert codes("collage 1;\n" + rules * 40_000) == ["E0106"]


# The command's start.


def test_checking_imports_no_tvm() -> None:
    program = (
        "import sys; from collage_dsl.language import check; "
        "from collage_dsl.source import Source; check(Source('t', 'collage 1;')); "
        "print([m for m in ('tvm', 'onnx', 'numpy', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )

    assert done.stdout == "[]\n", done.stderr


def test_codes_are_four_digits_and_have_titles() -> None:
    assert all(code[0] in "EW" and code[1:].isdigit() and len(code) == 5 for code in CODES)
    assert all(CODES.values())


def test_patterns_that_call_each_other_stay_small() -> None:
    doubling = "".join(
        f"pattern p{n + 1}(x) {{ y = add(p{n}(x), p{n}(x)); yield y; }} " for n in range(20)
    )
    text = f"collage 1; pattern p0(x) {{ y = nn.relu(x); yield y; }} {doubling}"

    assert codes(text) == ["E0406"]


def test_patterns_that_call_each_other_are_not_deep() -> None:
    chain = "".join(f"pattern p{n}(x) {{ y = p{n + 1}(x); yield y; }} " for n in range(2000))
    text = f"collage 1; {chain} pattern p2000(x) {{ y = nn.relu(x); yield y; }}"

    assert set(codes(text)) == {"E0105"}


def test_rules_with_parameters_stay_small() -> None:
    doubling = "".join(f"rule r{n + 1}(x) = r{n}(union(x, max_coalesce(x))); " for n in range(40))
    text = f"collage 1; rule r0(x) = x; {doubling} rule r = r40(op_call_by_kind());"

    assert codes(text) == ["E0406"]


def test_a_mistake_in_a_rule_with_parameters_is_reported_once() -> None:
    text = (
        "collage 1; rule f(x) = unoin(x); rule a = op_call_by_kind(); rule b = union(f(a), f(a));"
    )

    assert codes(text) == ["E0401"]
