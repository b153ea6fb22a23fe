"""What the server says of extern predicates, and of the pattern tables that TVM has."""

from pathlib import Path

import pytest

from collage_dsl.language import check
from collage_dsl.lsp.completion import completions
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.hover import hover
from collage_dsl.lsp.places import definition, references
from collage_dsl.lsp.rename import RenameError, rename
from collage_dsl.source import Source
from tests.lsp.marked import marked, opened

FILE = """\
collage 1;
import pattern_table "cutlass" as cutlass;
import pattern_table "tensorrt" only (nn_relu, all as every);
# Whether it can be laid out.
extern predicate fits(x, w) from "acme.predicates:fits";
pattern dense(x, w: const) {
  y = matmul(x, w);
  where fits(x, w) else "it cannot be laid out";
  yield y;
}
pattern w(x) { y = exp(x); yield y; }
target t on cuda(libs: ["cutlass", "tensorrt"]) {
  rules union(
    cutlass.all,
    every,
    dfpattern(nn_relu),
    dfpattern(cutlass.conv2d_bias),
    dfpattern(dense),
    dfpattern(w),
  );
}
"""


def said(text: str) -> str:
    document, offset = marked(FILE.replace(text.replace("¦", ""), text))
    found = hover(document, offset, Files())
    return found.text if found else ""


def test_the_file_is_in_order() -> None:
    assert check(Source("a.collage", FILE)) == ()


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("where f¦its", 'extern predicate fits(x, w) from "acme.predicates:fits";'),
        ("where f¦its", "Whether it can be laid out."),
        ("predicate fits(¦x", "A parameter of predicate `fits`"),
        ('table "cut¦lass" as', "TVM's pattern table `cutlass` defines `all`, "),
        ("    cut¦lass.all", "defines `all`, "),
        ("cutlass.a¦ll", "Every pattern of TVM's pattern table `cutlass`"),
        ("cutlass.conv2d¦_bias", "nn.conv2d("),
        ("cutlass.conv2d¦_bias", "From TVM's pattern table `cutlass`."),
        ("dfpattern(nn_¦relu", "From TVM's pattern table `tensorrt`."),
        ("    ev¦ery", "Every pattern of TVM's pattern table `tensorrt`"),
    ],
)
def test_hover_says_what_a_predicate_or_a_name_of_a_table_is(place: str, says: str) -> None:
    assert says in said(place)


def test_hover_says_why_a_pattern_of_a_table_cannot_be_used() -> None:
    document, offset = marked(FILE.replace("cutlass.conv2d_bias", "cutlass.rms_¦norm"))
    found = hover(document, offset, Files())

    assert found is not None
    assert "has it, but it matches a" in found.text


@pytest.mark.parametrize(
    ("place", "leads_to"),
    [
        ("where f¦its", "fits(x, w) from"),
        ("fits(x, ¦w) else", "w: const"),
        ("dfpattern(¦w)", "w(x)"),
        ("    ¦cutlass.all", "cutlass;"),
    ],
)
def test_a_definition_is_that_of_the_scope(place: str, leads_to: str) -> None:
    document, offset = marked(FILE.replace(place.replace("¦", ""), place))

    found = definition(document, offset, Files())

    assert found is not None
    assert document.text[found[1].start :].startswith(leads_to)


def test_the_patterns_of_a_table_are_in_no_file(tmp_path: Path) -> None:
    library = "collage 1;\npattern conv2d_bias(x) { y = exp(x); yield y; }\n"
    files, made = opened(tmp_path, main=FILE, cutlass=library)
    for name in ("conv2d_bias)", 'cutlass" as'):
        assert definition(made["main"], FILE.index(name) + 2, files) is None

    found = references(made["cutlass"], library.index("conv2d_bias"), files)

    assert [other for other, _ in found] == [made["cutlass"]]


def test_the_parameters_of_a_predicate_are_its_own() -> None:
    document, offset = marked(FILE.replace("pattern w(x)", "pattern ¦w(x)"))
    edits = rename(document, offset, "z", Files())
    assert [document.text[e.span.start - 8 : e.span.start] for e in edits] == [
        "pattern ",
        "pattern(",
    ]

    document, offset = marked(FILE.replace("predicate fits(x", "predicate fits(¦x"))
    assert len(rename(document, offset, "data", Files())) == 1
    with pytest.raises(RenameError, match="`w` is defined already"):
        rename(document, offset, "w", Files())


def test_a_predicate_is_renamed_in_the_files_that_import_it(tmp_path: Path) -> None:
    other = """collage 1; import "lib.collage" as lib;
    pattern p(x) { y = exp(x); where lib.fits(x, x); yield y; }"""
    files, made = opened(tmp_path, lib=FILE, main=other)

    edits = rename(made["lib"], FILE.index("fits(x, w) from"), "suits", files)

    assert [edit.document.path.stem for edit in edits] == ["lib", "lib", "main"]


@pytest.mark.parametrize(
    ("text", "are", "are_not"),
    [
        ("import ¦", {"pattern_table"}, {"as"}),
        ('import pattern_table "tensorrt" ¦', {"as", "only"}, {"pattern_table"}),
        ('import pattern_table "¦', {"cutlass", "tensorrt"}, {"std/activations.collage"}),
        ('import "¦', {"std/activations.collage"}, {"cutlass"}),
        ('import pattern_table "tensorrt" only (¦', {"nn_relu", "all"}, {"conv2d_bias"}),
        ("pattern p(x) { y = ¦", {"cutlass.conv2d_bias", "nn_relu"}, {"cutlass.all", "every"}),
        ("pattern p(x) { y = exp(x); where ¦", {"fits", "has", "x"}, {"cutlass.conv2d_bias"}),
        ("rule r = union(¦", {"cutlass.all", "every"}, {"cutlass.conv2d_bias", "fits"}),
        ("rule r = dfpattern(¦", {"cutlass.conv2d_bias", "nn_relu", "dense"}, {"cutlass.all"}),
        ("rule r = op_predicate(¦", {"fits", "ops"}, {"dense"}),
        ("rule r = op_predicate(fits, ops: [¦", {"nn.relu"}, {"fits", "union"}),
    ],
)
def test_predicates_and_names_of_tables_are_offered_where_they_can_stand(
    text: str, are: set[str], are_not: set[str]
) -> None:
    before, after = FILE.split("target t")
    document, offset = marked(f"{before}{text}\ntarget t{after}")

    offered = {each.label for each in completions(document, offset, Files())[1]}

    assert are <= offered
    assert not are_not & offered
