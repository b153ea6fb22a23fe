"""What stands where: hover, definitions, references, renaming, symbols, positions."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.graph.types import KINDS
from collage_dsl.graph.variants import NATIVE_VARIANTS
from collage_dsl.language.resolve import functions, imports, spec_tests
from collage_dsl.language.resolve.measuring import MEASURES
from collage_dsl.language.resolve.targets import SETTINGS
from collage_dsl.language.resolve.tuning import TUNES
from collage_dsl.language.syntax.whole_text import MAX_CHARACTERS
from collage_dsl.lsp.completion import completions
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.formatting import formatted
from collage_dsl.lsp.hover import hover
from collage_dsl.lsp.outline import symbols
from collage_dsl.lsp.places import definition, references
from collage_dsl.lsp.positions import Position, Positions
from collage_dsl.lsp.problems import problems
from collage_dsl.lsp.rename import RenameError, rename
from collage_dsl.lsp.vocabulary import meaning
from collage_dsl.rules.rule_functions import LIMIT_NAMES, PRIMITIVE_NAMES, RULES
from tests.cases import cases
from tests.lsp.marked import PATH, marked, opened

FILE = """\
collage 1;

let act = one_of(nn.relu, nn.gelu);

# Convolution, activated.
pattern conv(x, w: const & [n, 16, _, _], b?: const) {
  k = nn.conv2d(x, w) [groups == 1, strides[*] <= 2];
  s = add?(k, b);
  y = act?(s) ordered;
  where dtype(x) in [f32] and n % 16 == 0 else "why";
  taps none;
  yield y;
}

rule tagged(p, label) = composite(label, dfpattern(p));
rule all = combine_by_primitives(
  union(tagged(conv, "lib.c"), op_call_by_kind(anchor), op_call_by_kind(broadcast)),
  using: [kind(anchor -> broadcast)],
);

target tvm on llvm(libs: ["lib"]) {
  rules    union(all, op_call_by_kind(), op_call_by_kind(opaque));
  variants [direct, gemm];
  limits   { max_exits 1; }
  measure  { percentile 50; }
  fallback;
}

test "one" {
  graph { a: f32[1, 16]; c = nn.relu(a); return c; }
  expect matches(conv, at: c) == 0 and candidates(tvm) >= 1;
}
"""


def hovered(text: str, before: str) -> str:
    """What hover says in `text` at the end of `before`, which stands there once."""
    assert text.count(before) == 1, before
    document, offset = marked(text.replace(before, f"{before}¦"))
    found = hover(document, offset, Files())
    return found.text if found else ""


def test_hover_says_what_models_have_in_the_place_of_an_onnx_operator() -> None:
    text = "collage 1;\npattern p(x) { y = onnx.Relu(x); yield y; }\n"

    assert "models usually have `nn.relu` in its place" in hovered(text, "onnx.Rel")


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("k = nn.con", "nn.conv2d(data, weight)"),
        ("k = nn.con", "data_layout: str = "),
        ("k = nn.con", "Kind: `anchor`"),
        ("[gro", "nn.conv2d [groups]: int = 1"),
        ("strid", "[strides]: ints = [1, 1]"),
        ("where dty", "the type of its elements"),
        ("in [f3", "float32"),
        ("and n", "A dimension of pattern `conv`"),
        ("yield y", "y = act?(s)"),
        ("s) order", "in this order"),
        ("y = ac", "The operators `nn.relu`, `nn.gelu`"),
        ("tagged(con", "Convolution, activated."),
        ("tagged(con", "pattern conv(x, w: const & [n, 16, _, _], b?: const)"),
        ("dfpattern(p", "A parameter of rule `tagged`"),
        ("= compos", "Composite = label"),
        ("op_call_by_kind(anch", "nn.conv2d"),
        ("[kin", "an upstream of kind A"),
        ("varian", "that may compute kernels of the target"),
        ("[dire", "loops over the operands"),
        ("limi", "limits { max_exits 1; }"),
        ("max_exi", "used outside"),
        ("measu", "How kernels of the target are timed"),
        ("percenti", "of its times is the cost"),
        ("fallb", "every operator"),
        ("expect mat", "how often `pattern` matches"),
        ("candidates(tv", "target tvm on llvm"),
        ("at: c", "c = nn.relu(a)"),
        ("wher", "a condition for a match"),
    ],
)
def test_hover_says_what_a_name_is(before: str, says: str) -> None:
    assert says in hovered(FILE, before)


def test_hover_on_the_code_in_a_comment_shows_its_page() -> None:
    assert "W0405" in hovered("collage 1;\n# collage: ignore[W0405] later\n", "ignore[W04")


def test_every_word_of_the_language_has_a_meaning() -> None:
    wanted = {
        "rule": RULES,
        "function": functions.FUNCTIONS,
        "question": spec_tests._FUNCTIONS,
        "primitive": PRIMITIVE_NAMES,
        "kind": KINDS,
        "setting": SETTINGS,
        "limit": LIMIT_NAMES,
        "measure": MEASURES,
        "tune": TUNES,
        "variant": NATIVE_VARIANTS,
    }

    lacking = [(g, w) for g, words in wanted.items() for w in words if not meaning(g, w)]

    assert lacking == []


# Definitions and references.


@pytest.mark.parametrize(
    ("at", "leads_to"),
    [
        ("yield ¦y", "y = act"),
        ("nn.conv2d(¦x", "x, w: const"),
        ("dtype(¦x", "x, w: const"),
        ("and ¦n %", "n, 16"),
        ("y = ¦act", "act = one_of"),
        ("tagged(¦conv", "conv(x, w"),
        ("union(¦tagged", "tagged(p, label)"),
        ("dfpattern(¦p)", "p, label"),
        ("rules    union(¦all", "all = combine"),
        ("candidates(¦tvm", "tvm on llvm"),
        ("at: ¦c", "c = nn.relu"),
        ("return ¦c", "c = nn.relu"),
    ],
)
def test_a_definition_is_found(at: str, leads_to: str) -> None:
    document, offset = marked(FILE.replace(at.replace("¦", ""), at, 1))

    found = definition(document, offset, Files())

    assert found is not None
    assert document.text[found[1].start :].startswith(leads_to)


LIBRARY = """\
collage 1;
# x * sigmoid(x)
pattern swish(x) { y = multiply(x, sigmoid(x)); yield y; }
"""


@pytest.mark.parametrize(
    ("imports", "called"),
    [
        ('import "lib.collage" as lib;', "lib.¦swish"),
        ('import "lib.collage" only (swish);', "¦swish"),
        ('import "lib.collage" only (swish as s);', "¦s"),
    ],
)
def test_an_imported_name_leads_to_its_file(tmp_path: Path, imports: str, called: str) -> None:
    text = f"collage 1; {imports} pattern p(x) {{ y = {called}(exp(x)); yield y; }}"
    files, made = opened(tmp_path, main=text.replace("¦", ""), lib=LIBRARY)

    found = definition(made["main"], text.index("¦"), files)
    shown = hover(made["main"], text.index("¦"), files)

    assert found == (made["lib"], made["lib"].names.definitions["swish"].span)
    assert shown is not None
    assert "x * sigmoid(x)" in shown.text


def test_the_path_of_an_import_leads_to_the_file(tmp_path: Path) -> None:
    text = 'collage 1; import "lib.coll¦age" as lib;'
    files, made = opened(tmp_path, main=text.replace("¦", ""), lib=LIBRARY)

    found = definition(made["main"], text.index("¦"), files)

    assert found is not None
    assert found[0] == made["lib"]


def test_a_name_in_a_list_is_a_dimension() -> None:
    text = """collage 1;
pattern p(x: [b, _]) { y = reshape(x, [b, ¦half, ..]); where half * 2 == b; yield y; }
"""
    document, offset = marked(text)

    found = references(document, offset, Files())

    assert [span.text for _, span in found] == ["half", "half"]
    shown = hover(document, offset, Files())
    assert shown is not None
    assert "A dimension of pattern `p`" in shown.text
    first = text.replace("¦", "").index("[b, half") + 1
    assert len(references(document, first, Files())) == 3


def test_references_go_across_files(tmp_path: Path) -> None:
    main = 'collage 1; import "lib.collage" as l; pattern p(x) { y = l.swish(exp(x)); yield y; }'
    files, made = opened(tmp_path, main=main, lib=LIBRARY)

    found = references(made["lib"], LIBRARY.index("swish"), files)

    assert [(other.path.stem, span.text) for other, span in found] == [
        ("lib", "swish"),
        ("main", "swish"),
    ]


def test_a_file_with_syntax_errors_still_has_names() -> None:
    text = FILE.replace("s = add?(k, b);", "s = add?(k, ;")
    document, offset = marked(text.replace("yield y", "yield ¦y"))

    assert definition(document, offset, Files()) is not None
    assert "tagged" in document.names.definitions
    assert "s" in document.names.scopes[0][1]


@cases(100)
@given(st.integers(0, len(FILE)), st.integers(0, 40))
def test_no_text_is_too_broken_to_be_asked_about(start: int, length: int) -> None:
    document, offset = marked(FILE[:start] + "¦" + FILE[start + length :])
    files = Files()

    symbols(document)
    formatted(document)
    hover(document, offset, files)
    definition(document, offset, files)
    references(document, offset, files)
    completions(document, offset, files)


def test_what_is_nested_as_deep_as_may_be_has_names() -> None:
    deep = "exp(" * 190 + "x" + ")" * 190
    document, offset = marked(f"collage 1; pattern p(x) {{ y = {deep}; yield ¦y; }}")

    assert definition(document, offset, Files()) is not None


# Renaming.


def renamed(text: str, new: str) -> str:
    document, offset = marked(text)
    result = document.text
    for edit in reversed(rename(document, offset, new, Files())):
        result = result[: edit.span.start] + edit.text + result[edit.span.end :]
    return result


@pytest.mark.parametrize("name", ["conv", "act", "tagged", "all", "k", "x", "w", "n", "tvm", "p"])
def test_a_renamed_name_is_renamed_everywhere(name: str) -> None:
    at = re.search(rf"\b{name}\b(?! *:)", FILE.replace("collage", "COLLAGE"))
    assert at
    text = renamed(FILE[: at.start()] + "¦" + FILE[at.start() :], "fresh")

    assert "fresh" in text
    document, _ = marked(text + "¦")
    assert problems(document, Files()) == problems(marked(FILE + "¦")[0], Files()) == ()


OTHER_CALL = """collage 1;
pattern p(x, c: const) {
  k = nn.conv2d(x, c);
  y = nn.max_pool2d(k) [strides[0] == k.stri¦des[1]];
  where all(c >= 0) and k.padding[*] == 0;
  yield y;
}
"""


def test_an_attribute_of_another_call_is_explained_and_its_call_renamed() -> None:
    document, offset = marked(OTHER_CALL)

    found = hover(document, offset, Files())

    assert found is not None
    assert "nn.conv2d [strides]" in str(found)
    assert renamed(OTHER_CALL.replace("¦", "").replace("k = ", "¦k = "), "conv") == (
        OTHER_CALL.replace("¦", "").replace("k = ", "conv = ").replace("(k)", "(conv)")
    ).replace("k.", "conv.")
    inside = OTHER_CALL.replace("¦", "").replace("all(c", "all(¦c")
    assert "all(c2 >= 0)" in renamed(inside, "c2")


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ("1x", "not a name"),
        ("a.b", "not a name"),
        ("f32", "is a dtype"),
        ("nn", ""),
        ("exp", "is an operator"),
        ("act", "is defined already"),
        ("label", "is defined already"),
    ],
)
def test_a_rename_that_would_mean_another_thing_is_refused(new: str, why: str) -> None:
    text = FILE.replace("pattern conv", "pattern ¦conv")
    if not why:
        assert renamed(text, new)
        return
    with pytest.raises(RenameError, match=why):
        renamed(text, new)


def test_a_rename_reaches_the_files_that_import(tmp_path: Path) -> None:
    use = "pattern p(x) {{ y = {}(exp(x)); yield y; }}"
    files, made = opened(
        tmp_path,
        lib=LIBRARY,
        prefixed='collage 1; import "lib.collage" as l; ' + use.format("l.swish"),
        plain='collage 1; import "lib.collage" only (swish); ' + use.format("swish"),
        other='collage 1; import "lib.collage" only (swish as s); ' + use.format("s"),
    )
    for start in ("lib", "prefixed", "plain"):
        at = made[start].text.index("swish")
        found = rename(made[start], at, "silu2", files)
        count = {n: sum(e.document == d for e in found) for n, d in made.items()}
        assert count == {"lib": 1, "prefixed": 1, "plain": 2, "other": 1}, start

    alias = rename(made["other"], made["other"].text.index("s(exp"), "t", files)
    assert [edit.document.path.stem for edit in alias] == ["other", "other"]


def test_what_ships_is_not_renamed(tmp_path: Path) -> None:
    header = 'collage 1; import "std/activations.collage" only (swish);'
    main = f"{header} pattern p(x) {{ y = swish(exp(x)); yield y; }}"
    files, made = opened(tmp_path, main=main)

    with pytest.raises(RenameError, match="not in the workspace"):
        rename(made["main"], main.index("swish"), "silu2", files)


def test_a_name_in_a_statement_with_a_syntax_error_is_not_renamed() -> None:
    with pytest.raises(RenameError, match="syntax error"):
        renamed(FILE.replace("y = act?(s) ordered;", "y = act?(s;").replace("s = a", "¦s = a"), "t")


# The rest.


def test_symbols_have_what_is_inside() -> None:
    document, _ = marked(FILE + "¦")

    assert [(s.name, s.sort, [i.name for i in s.inside]) for s in symbols(document)] == [
        ("act", "class", []),
        ("conv", "pattern", ["x", "w", "b", "k", "s", "y"]),
        ("tagged", "rule", ["p", "label"]),
        ("all", "rule", []),
        ("tvm", "target", []),
        ("one", "test", []),
    ]


def test_the_name_of_a_broken_definition_is_inside_it() -> None:
    document, _ = marked("collage 1;\n\nrule oféf(p) = union(p);¦")

    [found] = symbols(document)

    assert (found.span.text, found.whole.text) == ("of", "rule of")


def test_findings_are_those_of_open_texts(tmp_path: Path) -> None:
    main = 'collage 1; import "lib.collage" as lib; pattern p(x) { y = lib.f(exp(x)); yield y; }'
    files, made = opened(tmp_path, main=main, lib=LIBRARY)
    assert [found.code for found in problems(made["main"], files)] == ["E0201"]

    files.open(made["lib"].path, LIBRARY.replace("swish", "f"))

    assert problems(made["main"], files) == ()


def test_formatting_replaces_what_changes_only() -> None:
    document, _ = marked(FILE.replace("taps none;", "taps   none  ;") + "¦")

    found = formatted(document)

    assert found is not None
    assert (found[0].text, found[1]) == ("  taps   none  ;\n", "  taps none;\n")


def test_columns_are_counted_in_utf_16() -> None:
    text = 'a\r\n"𝄞é" b\n'
    positions = Positions(text)

    assert positions.position(text.index("b")) == Position(1, 6)
    assert positions.offset(Position(1, 6)) == text.index("b")
    assert positions.offset(Position(0, 99)) == 1
    assert positions.offset(Position(9, 0)) == len(text)
    assert Positions(text, "utf-8").position(text.index("b")) == Position(1, 9)
    assert Positions(text, "utf-32").position(text.index("b")) == Position(1, 5)


@cases(100)
@given(st.text("a𝄞é\r\n"), st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_a_position_leads_back_to_its_offset(text: str, encoding: str) -> None:
    positions = Positions(text, encoding)  # type: ignore[arg-type]
    for offset in range(len(text) + 1):
        between = text[offset - 1 : offset + 1] == "\r\n"
        if not between:
            assert positions.offset(positions.position(offset)) == offset


def test_a_long_word_before_the_cursor_takes_no_longer() -> None:
    text = f"collage 1;\n# {'a' * MAX_CHARACTERS} collage: ignore E0101\n"
    document = Document(PATH, text)
    start = time.process_time()

    found = hover(document, len(text) - 2, Files())

    assert found is not None
    assert found.span.text == "E0101"
    assert time.process_time() - start < 5


def test_for_a_completion_no_import_is_compared_with_other_names_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    monkeypatch.setattr(imports, "closest", lambda written, known: compared.append(written) or "")
    text = 'collage 1;\nimport "std/activation.collage" only (relu6);\nlet a = one_of();\n'
    files, documents = opened(tmp_path, a=text)

    _, found = completions(documents["a"], text.index("();") + 1, files)

    assert "exp" in {each.label for each in found}
    assert not compared
