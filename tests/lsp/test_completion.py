"""What is offered where."""

from pathlib import Path

import pytest

from collage_dsl.lsp.completion import completions
from collage_dsl.lsp.files import Files
from tests.lsp.marked import marked

BEFORE = """\
collage 1;
let act = one_of(nn.relu, nn.gelu);
pattern conv(x) { y = nn.conv2d(x, _); yield y; }
rule all = dfpattern(conv);
"""
AFTER = "\ntarget tvm on llvm { rules all; }\n"


def offered(text: str) -> set[str]:
    """What is offered at the cursor in `text`, in the middle of a file."""
    document, offset = marked(f"{BEFORE}{text}{AFTER}")
    return {each.label for each in completions(document, offset, Files())[1]}


@pytest.mark.parametrize(
    ("text", "are", "are_not"),
    [
        ("¦", {"pattern", "rule", "target", "test", "let", "import"}, {"where", "nn.relu"}),
        ("pattern p(x) { ¦", {"where", "yield", "taps"}, {"pattern"}),
        (
            "pattern p(x) { y = ¦",
            {"nn.relu", "act", "conv", "x", "elementwise"},
            {"all", "yield", "y"},
        ),
        ("pattern p(x, w: ¦", {"const", "not"}, {"nn.relu"}),
        ("pattern p(x, w: not ¦", {"const", "act", "nn.relu", "elementwise"}, {"conv", "not"}),
        ("pattern p(x: not (act | ¦", {"const", "act", "nn.relu"}, {"conv", "not"}),
        ("pattern p(x: not (act | tanh), y) { k = ¦", {"x", "y"}, {"not"}),
        ("pattern p(x) { k = exp(x); y = add(k, ¦", {"k", "x", "nn.relu"}, set()),
        ("pattern p(x) { y = concat(¦", {"each", "repeat", "path", "x"}, {"const"}),
        ("pattern p(x) { y = nn.conv2d(x) [¦", {"strides", "groups", "dtype"}, {"axis"}),
        ("pattern p(x) { y = nn.conv2d(exp(x), x)? [gr¦", {"groups"}, {"axis"}),
        ("pattern p(x) { y = (nn.conv2d | nn.conv1d)?(x, x) [¦", {"strides"}, {"axis"}),
        ("pattern p(x) { y = act(x) [¦", {"dtype"}, {"strides", "none"}),
        ("pattern p(x) { y = nn.conv2d(x, x) [data_layout == ¦", {'"NCHW"', '"NHWC"'}, {"NCHW"}),
        ('pattern p(x) { y = nn.conv2d(x, x) [data_layout == "NCHW", ¦', {"groups"}, {'"NCHW"'}),
        ("pattern p(x) { y = sum(x) [axis == ¦", {"axis", "none"}, set()),
        ("pattern p(x) { y = (sum | max)(x) [axis in [¦", {"none", "true"}, set()),
        ("pattern p(x: [n]) { where ¦", {"n", "dim", "has", "not", "f32"}, {"nn.relu"}),
        ("pattern p(x) { taps ¦", {"none", "allowed"}, {"x"}),
        ("pattern p(x) { y = exp(x); yield ¦", {"x", "y"}, {"act"}),
        ("rule r = ¦", {"union", "dfpattern", "all"}, {"conv", "one_of"}),
        ("rule r(p) = composite(label, ¦", {"p", "all"}, set()),
        ("rule r = dfpattern(¦", {"conv"}, {"all"}),
        ("rule r = op_call_by_kind(¦", {"anchor", "opaque"}, {"union"}),
        ("rule r = combine_by_primitives(all, ¦", {"using", "max_depth"}, set()),
        ("rule r = combine_by_primitives(all, using: ¦", {"tvm_default"}, {"union"}),
        ("rule r = combine_by_primitives(all, using: [kind(¦", {"anchor"}, {"tvm_default"}),
        ("rule r = only_valid(all, ¦", {"max_exits", "taps"}, {"using"}),
        ("rule r = only_variants(¦", {"union", "all"}, {"direct"}),
        ("rule r = only_variants(all, [direct, ¦", {"gemm", "winograd2"}, {"union", "all"}),
        ("rule r = only_variants(union(all, ¦", {"dfpattern", "all"}, {"gemm"}),
        ("target t on llvm { ¦", {"rules", "limits", "compiler"}, {"max_exits"}),
        ("target t on llvm { rules ¦", {"all", "union"}, {"conv"}),
        ("target t on llvm { limits { ¦", {"max_exits", "taps"}, {"rules"}),
        ("target t on llvm { limits { taps ¦", {"allowed", "none"}, {"any"}),
        ("target t on llvm { limits { max_regions ¦", {"any"}, {"largest_first"}),
        ("target t on llvm { limits { min_nodes ¦", set(), {"any"}),
        ("target t on llvm { limits { largest_first ¦", set(), {"any", "true"}),
        ("rule r = only_valid(all, largest_first: ¦", {"true", "false"}, {"any"}),
        ("rule r = only_valid(all, min_nodes: ¦", set(), {"any", "none"}),
        ("target t on llvm { variants ¦", {"not"}, {"direct", "any"}),
        ("target t on llvm { variants [¦", {"direct", "winograd4"}, {"not", "union"}),
        ("target t on llvm { variants not [direct, ¦", {"gemm", "gemv"}, {"not", "act"}),
        ("target t on llvm { measure { ¦", {"repeats", "timeout"}, {"max_exits", "taps"}),
        ("target t on llvm { tune { ¦", {"trials"}, {"max_exits", "repeats"}),
        ("target t on llvm { measure { budget ¦", set(), {"any", "repeats"}),
        ('test "t" { ¦', {"graph", "expect"}, {"where"}),
        ('test "t" { expect ¦', {"matches", "why_not"}, {"dim"}),
        (
            'test "t" { graph { a: f32[1]; b = exp(a); } expect matches(conv, at: ¦',
            {"a", "b"},
            set(),
        ),
        ('test "t" { graph { a: ¦', {"f32"}, {"act"}),
        ('test "t" { graph { a: f32[1]; b = ¦', {"nn.relu", "const"}, {"act"}),
        ("# ¦", set(), {"pattern"}),
    ],
)
def test_words_are_offered_where_they_can_stand(
    text: str, are: set[str], are_not: set[str]
) -> None:
    found = offered(text)

    assert are <= found
    assert not are_not & found


def test_strings_are_offered_that_an_attribute_usually_has() -> None:
    call = "pattern p(x) { y = nn.conv2d(x, x) "
    assert offered(f'{call}[data_layout == "¦') == {"NCHW", "NHWC"}
    assert offered(f'{call}[data_layout in ["NCHW", "¦"]]') == {"NCHW", "NHWC"}


def test_the_files_that_ship_are_offered_to_import(tmp_path: Path) -> None:
    assert "std/activations.collage" in offered('import "¦')
    assert "swish" in offered('import "std/activations.collage" only (¦')
    with_import = 'import "std/activations.collage" as act2;\npattern p(x) { y = ¦'
    assert {"act2.swish", "act2.smooth"} <= offered(with_import)


def test_all_of_a_dotted_name_is_replaced() -> None:
    document, offset = marked(f"{BEFORE}pattern p(x) {{ y = nn.co¦")

    span, found = completions(document, offset, Files())

    assert span.text == "nn.co"
    assert "nn.conv2d" in {each.label for each in found}


TEST = 'target tvm on llvm { rules all; }\ntest "t" { graph { a: f32[1]; return a; } expect '


@pytest.mark.parametrize(
    ("text", "are", "are_not"),
    [
        ("extern ¦", {"predicate"}, {"rule"}),
        ("extern predicate fits(x) ¦", {"from"}, {"predicate"}),
        ("target t on ¦", {"llvm", "cuda"}, {"on"}),
        ("target t on llvm(¦", {"mcpu", "num_cores", "libs"}, {"llvm"}),
        ("target t on llvm { after max_coalesce(¦", set(), {"max_coalesce"}),
        ("pin ¦", {"op", "name"}, {"to", "tvm"}),
        ("forbid op(¦", {"act", "exp", "anchor"}, {"conv", "tvm"}),
        ("pin op(exp) ¦", {"to"}, {"on", "op"}),
        ("forbid op(exp) ¦", {"on"}, {"to"}),
        ("target tvm on llvm { rules all; }\npin op(exp) to ¦", {"tvm"}, {"because"}),
        ("pin op(exp) to tvm ¦", {"because"}, {"tvm"}),
        ("target t on llvm {\npin ¦", {"op", "name"}, {"rules"}),
        ("pattern p(x) { y = path[1..2] act ¦", {"from"}, set()),
        ("pattern p(x) { y = path[1..2] act from ¦", {"x"}, {"from"}),
        ("pattern p(x) { y = add(x, ~0.5 ¦", {"within"}, set()),
        ("pattern p(x) { k = nn.conv2d(x, _); where k.¦", {"k.strides", "k.groups"}, {"k.axis"}),
        ("pattern p(x) { k = (sum | max)?(x); where k.a¦", {"k.axis"}, {"k.strides"}),
        ("rule r(p) = dfpattern(p); rule all2 = r(¦", {"all", "union"}, set()),
        ('test "t" { graph { a: f32[1]; b = sum(a) [keepdims = ¦', {"true", "false"}, {"axis"}),
        ('test "t" { graph { a: f32[1]; b = astype(a) [dtype = ¦', {"f16"}, {"dtype"}),
        (f"{TEST}matches(¦", {"conv", "at", "nodes"}, {"all", "tvm", "a"}),
        (f"{TEST}matches(conv, ¦", {"at", "nodes"}, {"conv", "a"}),
        (f"{TEST}candidates(¦", {"conv", "all", "tvm", "union"}, {"a", "at"}),
        (f"{TEST}candidates(union(¦", {"all", "union"}, {"tvm", "a", "conv"}),
        (f"{TEST}proposes(tvm, [¦", {"a"}, {"conv", "tvm"}),
        (f"{TEST}kernels(¦", {"tvm"}, {"conv", "all", "a"}),
        (f"{TEST}target_of(¦", {"a"}, {"conv", "tvm"}),
        (f"{TEST}matches(conv) == 1 ¦", {"and"}, {"or"}),
    ],
)
def test_only_what_is_possible_is_offered(text: str, are: set[str], are_not: set[str]) -> None:
    found = offered(text)
    assert are <= found
    assert not are_not & found


def test_a_rule_with_parameters_is_offered_patterns() -> None:
    files = Files()
    text = f"{BEFORE}rule own(p) = dfpattern(p);\nrule r = own(¦);\n"
    document, offset = marked(text)
    assert "conv" in {each.label for each in completions(document, offset, files)[1]}
