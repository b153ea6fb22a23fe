"""Each mistake on the page of hints is found once, in its place, with the hint that mends it."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from collage_dsl.diagnostics import RuleError
from collage_dsl.language import check, parse_graph
from collage_dsl.source import Source

PAGE = Path(__file__).with_name("hints.md")

_CASE = re.compile(r"^(.*)«(.*)»(.*)\n([EW]\d+): (.*)$", re.MULTILINE)
_EDITION = "collage 1;\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A text with a `wrong` part, for which there is a finding with a `hint`."""

    before: str
    wrong: str
    after: str
    code: str
    hint: str

    @property
    def text(self) -> str:
        return f"{_EDITION}{self.before}{self.wrong}{self.after}\n"

    @property
    def span(self) -> tuple[int, int]:
        start = len(_EDITION + self.before)
        return start, start + len(self.wrong)


CASES = [Case(*parts) for parts in _CASE.findall(PAGE.read_text("utf-8"))]


def test_every_text_has_a_place_and_a_hint() -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)

    texts = [text for block in blocks for text in block.strip().split("\n\n")]
    assert all(_CASE.fullmatch(text) for text in texts)


def test_a_mistake_has_one_finding_with_a_hint() -> None:
    assert len(CASES) > 500
    for case in CASES:
        found = check(Source("t.collage", case.text))

        said = [(each.code, (each.span.start, each.span.end), each.help) for each in found]
        assert said == [(case.code, case.span, case.hint)], case.text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("x: f32[4]; let y = exp(x); return y;", "write `y = exp(x);`, without `let`"),
        ("graph { x: f32[4]; y := exp(x); return y; }", "write `y = exp(x);`"),
        ("x: f32[4]; y = x + 1; return y;", "write `add(x, const f32[] 1)`"),
        ("x: f32[4]; exp(x); return y;", "write `y = exp(x);`"),
        ("x: f32[4]; y = exp(x); yield y;", "write `return y;`"),
    ],
)
def test_the_text_of_a_graph_has_the_same_hints(text: str, hint: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_graph(text)

    assert [each.help for each in caught.value.diagnostics] == [hint]


@pytest.mark.parametrize(
    "text",
    [
        "collage: 1\ntargets: []\n",
        "# specs\n\ncollage: 1\n",
        "---\ncollage: 1\n",
        "targets:\n- target:\n    name: acme\ncollage: 1\n",
        '"collage": 1\n',
        '{"collage": 1}\n',
    ],
)
def test_a_spec_in_another_form_is_one_for_convert(text: str) -> None:
    *_, found = check(Source("t.yaml", text))

    assert found.help == (
        "a spec is written in the language of `.collage` files; `collage convert` reads its JSON "
        "and YAML"
    )


def test_an_edition_has_no_colon() -> None:
    (found,) = check(Source("t.collage", "collage: 1;\n"))

    assert found.help == "write `collage 1;`"


@pytest.mark.parametrize(
    "name",
    ["tvm", "onnxruntime", "openclml", "lib", "mylib", "cublaslt", "cudnn8", "onednn_bf16", "acme"],
)
def test_a_compiler_of_ones_own_is_accepted(name: str) -> None:
    text = f'collage 1;\ntarget t on llvm {{ compiler "{name}"; rules op_call_by_kind(); }}\n'

    assert check(Source("t.collage", text)) == ()


def test_a_missing_brace_is_not_taken_for_a_binding() -> None:
    text = "collage 1;\npattern p(x) { y = act(x); yield y;\nlet act = one_of(nn.relu, exp);\n"

    assert [found.code for found in check(Source("t.collage", text))] == ["E0102"]


def test_what_a_broken_statement_defines_is_not_called_unknown() -> None:
    text = "collage 1;\npattern p(x) { a, b = split(x); y = add(a, b); yield y; }\n"

    assert [found.code for found in check(Source("t.collage", text))] == ["E0101"]


def test_reading_goes_on_after_braces_in_the_middle_of_a_statement() -> None:
    text = 'collage 1;\npattern p(x) { y = exp(x); where rank(x) in {1, 2} else "why"; yield z; }\n'

    assert [found.code for found in check(Source("t.collage", text))] == ["E0101", "E0206"]
