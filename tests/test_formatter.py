"""One style for rule files, which keeps their words, comments and meaning."""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collage_dsl.diagnostics import RuleError
from collage_dsl.language import check, load
from collage_dsl.language.syntax import aliases
from collage_dsl.language.syntax.formatter_tree import words
from collage_dsl.language.write.formatter import WIDTH, format_source
from collage_dsl.source import Source
from tests.cases import cases, sample
from tests.test_language_documents import examples
from tests.test_language_fuzz import SPEC, cuts, mutants, soup

ROOT = Path(__file__).parent.parent


def formatted(text: str) -> str:
    return format_source(Source("test", text))


def test_a_statement_has_a_line_and_settings_are_aligned() -> None:
    text = """collage 1;pattern f(x,w:const,b ?){k=nn.conv2d(x,w)[ groups==1,];
      y=(nn.relu|nn.gelu) ?(add?( k,b , ));where rank( x )==- 4 else"no"; yield y;}
      target t on llvm(num_cores:2){compiler"c";variants not[a,b,];rules dfpattern(f);
      limits{max_exits 1;taps none;}measure{budget 1.5s;repeats 5;}fallback;}"""

    assert formatted(text) == dedent("""\
        collage 1;

        pattern f(x, w: const, b?) {
          k = nn.conv2d(x, w) [groups == 1];
          y = (nn.relu | nn.gelu)?(add?(k, b));
          where rank(x) == -4 else "no";
          yield y;
        }

        target t on llvm(num_cores: 2) {
          compiler "c";
          variants not [a, b];
          rules    dfpattern(f);
          limits   { max_exits 1; taps none; }
          measure  { budget 1.5s; repeats 5; }
          fallback;
        }
        """)


def test_comments_stay_where_they_are() -> None:
    text = dedent("""\
        # The strategy.

        collage 1;  # edition

        # A pattern.
        pattern f(
          x,
          # constant
          w: const,  # weights
          # nothing more
        ) {  # opened
          # first
          y = matmul(x, w);  # product

          # apart
          yield y;
          # last
        }  # closed

        # The end.
        """)

    assert formatted(text) == text


def test_a_comment_in_the_middle_of_a_statement_stays_there() -> None:
    text = "collage 1;\nrule a = # why\nunion(op_call_by_kind()\n# and\n) # done\n;"
    once = formatted(text)

    assert re.findall("#.*", once) == ["# why", "# and", "# done"]
    assert formatted(once) == once
    assert load(text=once) == load(text=text)


def test_what_does_not_fit_is_broken_at_its_brackets() -> None:
    text = """collage 1;
      rule everything = union(composite("one", op_call_by_kind(elementwise)), composite("two",
        combine_by_primitives(op_call_by_kind(anchor), using: [kind(anchor -> broadcast),
        kind(broadcast -> reduce), tuple_args], max_depth: 4)));"""

    assert formatted(text) == dedent("""\
        collage 1;

        rule everything = union(
          composite("one", op_call_by_kind(elementwise)),
          composite(
            "two",
            combine_by_primitives(
              op_call_by_kind(anchor),
              using: [kind(anchor -> broadcast), kind(broadcast -> reduce), tuple_args],
              max_depth: 4,
            ),
          ),
        );
        """)


def test_long_alternatives_are_broken_before_each() -> None:
    value = " | ".join(f"nn.conv2d(images_{at}, weights)" for at in range(4))
    text = f"collage 1;\npattern p(x){{y=( {value.replace(' ', '')} ).0 .1;anchor  y;}}"

    assert formatted(text) == (
        "collage 1;\n\npattern p(x) {\n  y = (\n    "
        + value.replace(" | ", "\n      | ")
        + "\n  ).0.1;\n  anchor y;\n}\n"
    )
    assert formatted(formatted(text)) == formatted(text)


def test_tolerances_and_alternatives_have_spaces_around_their_words() -> None:
    text = "collage 1;\npattern p(x){y=add((x|~ -0.5  within 1e-3|f(x) .0),(nn.relu|exp) ? (x));}"

    assert formatted(text) == (
        "collage 1;\n\npattern p(x) {\n"
        "  y = add((x | ~-0.5 within 1e-3 | f(x).0), (nn.relu | exp)?(x));\n}\n"
    )


def test_a_long_condition_is_broken_before_its_words() -> None:
    text = dedent("""\
        collage 1;

        pattern f(x, w: const) {
          y = matmul(x, w);
          where dtype(x) in [f32, bf16]
            and dim(w, 0) % 16 == 0
            and (rank(x) == 2 or rank(x) == 3)
            else "the blocked layout needs channels divisible by 16";
          yield y;
        }
        """)
    on_one_line = re.sub(r"\n    ", " ", text)

    assert formatted(on_one_line) == text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_empty_lines_stand_alone_and_around_blocks() -> None:
    text = """

      collage 1;
      rule a = b;



      rule c = d;
      rule e = f;
      target t on llvm{

      rules a;}"""

    assert formatted(text) == dedent("""\
        collage 1;

        rule a = b;

        rule c = d;
        rule e = f;

        target t on llvm {
          rules a;
        }
        """)


def test_a_comment_that_ignores_a_warning_stays_with_the_line_it_is_about() -> None:
    ignore = "# collage: ignore[W0405] a library"
    pattern = f"pattern f(x) {{ y = nn.relu(x); yield y; }} {ignore}"
    text = f"collage 1;\n\n{pattern}\nrule a = b; {ignore}\n"

    assert formatted(text).splitlines()[2:4] == [ignore, "pattern f(x) {"]
    assert formatted(text).endswith(f"}}\n\nrule a = b;  {ignore}\n")


def test_names_of_the_upstream_vocabulary_become_ours() -> None:
    text = "collage 1;\nrule combined = combine(op_call_by_kind(), using: [tuple_args]);"

    assert "= combine_by_primitives(" in formatted(text)

    text = (
        "collage 1;\ntarget t on llvm { partition_rule OnlyValidPartitionRule(OpCallByKind()); }\n"
    )
    assert "  rules only_valid(op_call_by_kind());" in formatted(text)


def test_every_line_ends_as_on_unix_and_the_text_with_one() -> None:
    assert (
        formatted("collage 1;\r\nrule a = b; # c\r\n\r\n\r\n") == "collage 1;\n\nrule a = b;  # c\n"
    )


def test_a_text_with_syntax_errors_is_refused_with_all_of_them() -> None:
    with pytest.raises(RuleError) as caught:
        formatted("collage 1;\nrule a = ;\nrule b = union(;")

    assert [d.code for d in caught.value.diagnostics] == ["E0101", "E0101"]


@pytest.mark.parametrize("path", sorted((ROOT / "specs").rglob("*.collage")), ids=lambda p: p.stem)
def test_the_shipped_specs_are_formatted(path: Path) -> None:
    text = path.read_text("utf-8")

    assert formatted(text) == text


def ours(text: str) -> list[str]:
    """The words that are no comments, in our vocabulary; `x.0.1` is five, however it is spaced."""
    renamed = {**aliases.RULES, **aliases.SETTINGS}
    found: list[str] = []
    for word in words(text):
        if found[-1:] == ["."] and word[0].isdigit():
            found += re.split(r"(\.)", word)
        elif word[0] != "#":
            found.append(renamed.get(word, word))
    return found


def holds(text: str) -> None:
    """Where a text can be formatted, it keeps its words, comments, findings and meaning."""
    try:
        once = formatted(text)
    except RuleError:
        return
    assert formatted(once) == once
    assert [w for w in words(once) if w[0] == "#"] == [w for w in words(text) if w[0] == "#"]
    assert ours(once) == ours(text)
    before, after = check(Source("test", text)), check(Source("test", once))
    assert [d.code for d in before] == [d.code for d in after]
    if not any(d.is_error for d in before):
        assert load(text=once) == load(text=text)


@pytest.mark.parametrize(
    "text",
    sample(12, [e.text for e in examples() if e.language == "collage"]),
    ids=lambda text: text[11:40],
)
def test_formatting_the_examples_of_the_language_keeps_them(text: str) -> None:
    holds(text)


@cases(50)
@given(mutants(SPEC) | cuts(SPEC) | soup.map("collage 1; {}".format))
@example("collage 1; rule r = -1 - -x;")
@example("collage 1; rule r = (f) (x,);")
def test_formatting_any_text_keeps_it(text: str) -> None:
    holds(text)


@cases(25)
@given(st.lists(st.tuples(st.integers(0, len(SPEC)), st.sampled_from(["#a\n", "\n#b\n", "\n\n"]))))
@example([(60, "#a\n"), (62, "\n#b\n"), (62, "#a\n")])
@example([(80, "#a\n"), (80, "#b\n")])
@example([(610, "\n\n")])
def test_comments_anywhere_are_kept(places: list[tuple[int, str]]) -> None:
    text = SPEC
    for at, comment in places:
        text = f"{text[:at]}{comment}{text[at:]}"
    holds(text)


def test_a_percentage_is_one_word() -> None:
    text = (
        "collage 1;\ntarget t on llvm { rules op_call_by_kind(); measure { noise_margin 2%; } }\n"
    )

    assert "noise_margin 2%;" in format_source(Source("text", text))
    assert "dim(x, 0) % 16 == 0" in format_source(
        Source("text", "collage 1;\npattern p(x) { y = exp(x); where dim(x,0)%16==0; yield y; }\n")
    )


def test_nearness_and_elements_are_written_in_one_way() -> None:
    text = """collage 1;
      pattern p(x:[..,n],c:const){k=nn.conv2d(x,c)[padding [0]==padding[ -1 ]];
      y=nn.relu(k);where value(c)≈2*min( c )within 1e-3 and all(c~=0.5)else "≈";yield y;}"""

    assert formatted(text) == dedent("""\
        collage 1;

        pattern p(x: [.., n], c: const) {
          k = nn.conv2d(x, c) [padding[0] == padding[-1]];
          y = nn.relu(k);
          where value(c) ~= 2 * min(c) within 1e-3 and all(c ~= 0.5) else "≈";
          yield y;
        }
        """)
    assert formatted(formatted(text)) == formatted(text)


@pytest.mark.parametrize(
    "value",
    [
        "path[0..3] (elementwise | broadcast) from k",
        "concat(each[2..3] (exp | tanh)(k))",
        "repeat[1..2] (exp | tanh)(k)",
    ],
)
def test_what_follows_the_bounds_of_a_part_is_no_call_of_them(value: str) -> None:
    text = f"collage 1;\n\npattern p(x) {{\n  k = exp(x);\n  y = {value};\n  yield y;\n}}\n"

    assert format_source(Source("t", text)) == text
    assert format_source(Source("t", text.replace("] (", "]("))) == text


def test_a_tuple_of_one_keeps_its_comma_before_comments() -> None:
    text = dedent("""\
        collage 1;

        pattern f(x) {
          t = (
            x,  # the only one
            # and nothing else
          );
          y = concat(t);
          yield y;
        }
        """)

    assert formatted(text) == text
    assert formatted(text.replace("    # and nothing else\n", "")).count("x,") == 1


def test_a_comment_below_the_last_item_stays_below_it() -> None:
    text = "collage 1;\n\nlet a = one_of(\n  exp, # one\n  tanh,\n  # below\n);\n"
    once = formatted(text)

    assert once == text.replace("exp, # one", "exp,  # one")
    alone = text.replace("  exp, # one\n", "")
    assert formatted(alone) == formatted(formatted(alone)) == alone.replace("tanh,", "tanh")
