"""Bounds of patterns, classes and rules: the last that is allowed, and the first that is not."""

import pytest

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language import check
from collage_dsl.language.resolve.pattern_tables import table
from collage_dsl.source import Source
from tests.cases import sample


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in check(Source("t.collage", f"collage 1; {text}"))]


def messages(text: str) -> list[str]:
    return [found.message for found in check(Source("t.collage", f"collage 1; {text}"))]


def nested(depth: int, inner: str = "op_call_by_kind()") -> str:
    """A rule of that many parts, one in the other."""
    return "union(" * (depth - 1) + inner + ")" * (depth - 1)


@pytest.mark.parametrize(("depth", "wanted"), [(200, []), (201, ["E0105"])])
def test_rules_nest_two_hundred_deep(depth: int, wanted: list[str]) -> None:
    assert codes(f"target t on llvm {{ rules {nested(depth)}; }}") == wanted


@pytest.mark.parametrize(("depth", "wanted"), [(200, []), (201, ["E0105"])])
def test_so_do_rules_that_no_target_uses(depth: int, wanted: list[str]) -> None:
    assert codes(f"rule r = {nested(depth)};") == wanted


@pytest.mark.parametrize(("depth", "wanted"), [(96, []), (97, ["E0105"])])
def test_the_use_of_a_name_counts_twice(depth: int, wanted: list[str]) -> None:
    text = f"rule a = {nested(depth)}; rule b = {nested(101, 'a')}; target t on llvm {{ rules b; }}"

    assert codes(text) == wanted
    assert messages(text) == ["rules are nested more than 200 deep here" for _ in wanted]


@pytest.mark.parametrize(("depth", "wanted"), [(96, []), (97, ["a"])])
def test_a_name_is_too_deep_where_it_is_used(depth: int, wanted: list[str]) -> None:
    """The rule that it names has been checked before, and is well by itself."""
    rules = f"rule a = {nested(depth)}; rule b = {nested(101, 'a')};"
    text = f"collage 1; target s on llvm {{ rules a; }} {rules} target t on llvm {{ rules b; }}"
    found = check(Source("t.collage", text))

    assert [diagnostic.span.text for diagnostic in found] == wanted


@pytest.mark.parametrize(("depth", "wanted"), [(98, []), (99, ["E0105"])])
def test_a_rule_with_parameters_counts_as_what_it_stands_for(depth: int, wanted: list[str]) -> None:
    rules = f"rule f(r) = {nested(depth, 'r')}; rule g(r) = {nested(100, 'r')};"
    used = 'f(union(composite("a", op_call_by_kind()), g(op_call_by_kind())))'
    text = f'{rules} target t on llvm {{ compiler "lib"; rules {used}; }}'

    assert codes(text) == wanted
    assert messages(text) == ["rules are nested more than 200 deep here" for _ in wanted]


@pytest.mark.parametrize(("more", "wanted"), [(0, []), (1, ["E0406"]), (3, ["E0406"])])
@pytest.mark.parametrize("is_name_last", [False, True])
def test_rules_have_ten_thousand_parts(more: int, wanted: list[str], is_name_last: bool) -> None:
    hundred = ", ".join(f'composite("{at}", host())' for at in range(49))
    names = [f'composite("n{at}", a)' for at in range(98)]
    tagged = [f'composite("t{at}", host())' for at in range(3)]
    rest = {0: [tagged[0], "host()"], 1: tagged[:2], 3: tagged}[more]
    parts = ", ".join([*rest, *names] if is_name_last else [*names, *rest])
    text = f"rule a = union({hundred}, host()); rule b = union({parts});"

    assert codes(text) == wanted
    assert messages(text) == [
        "this rule has more than 10000 parts when its names are written out" for _ in wanted
    ]


TABLE = 'import pattern_table "cutlass" as c;'


@pytest.mark.parametrize(("depth", "wanted"), [(196, []), (197, ["E0105"])])
def test_the_rule_of_a_pattern_table_is_three_deep(depth: int, wanted: list[str]) -> None:
    """A union of composites of patterns; its name counts too."""
    assert codes(f"{TABLE} rule a = {nested(depth, 'c.all')};") == wanted


@pytest.mark.parametrize(("more", "wanted"), [(0, []), (1, ["E0406"])])
def test_the_rule_of_a_pattern_table_has_two_parts_for_each_pattern(
    more: int, wanted: list[str]
) -> None:
    used = 1 + 1 + 2 * len(table("cutlass").all.rules)
    tagged = [f'composite("t{at}", c.all)' for at in range(80)]
    left = 10_000 - 1 - 80 * (used + 1) + more
    hosts = [f'composite("h{at}", host())' for at in range(left // 2)] + ["host()"] * (left % 2)

    assert codes(f"{TABLE} rule a = union({', '.join([*tagged, *hosts])});") == wanted


@pytest.mark.parametrize(
    ("operand", "deep"),
    [
        ("x", 0),
        ("_", 0),
        ("(exp(x), tanh(x))", 2),
        ("t.0", 2),
        ("(exp(x) | tanh(x))", 2),
        ("repeat[1..3] exp(x)", 3),
        ("repeat[1..3] add(x, exp(x))", 6),
        ("inner(x)", 3),
        ("inner(exp(x))", 4),
        ("print()", 1),
        ("none()", 2),
        ("concat((x, inner(x)))", 5),
        ("split(inner(x)).1", 5),
        ("repeat[1..2] exp(inner(x))", 5),
        ("repeat[1..2] add(x, inner(x))", 8),
    ],
)
def test_patterns_are_a_hundred_operators_deep(operand: str, deep: int) -> None:
    def written(depth: int) -> str:
        calls = "exp(" * (depth - deep) + operand + ")" * (depth - deep)
        return f"""
          pattern none() {{ y = print(); yield y; }}
          pattern inner(x) {{ y = exp(tanh(x)); yield y; }}
          pattern p(x?) {{ t = split(_); y = {calls}; yield y; }}"""

    assert "E0105" not in codes(written(100))
    assert "E0105" in codes(written(101))


@pytest.mark.parametrize(
    ("operand", "calls"),
    sample(
        2,
        [
            ("exp(x)", 1),
            ("add(exp(x), tanh(x))", 3),
            ("concat((exp(x), tanh(x)))", 4),
            ("tanh(split(x).1)", 3),
            ("exp(repeat[1..3] tanh(x))", 4),
            ("exp(repeat[1..3] add(x, tanh(x)))", 7),
            ("exp((tanh(x) | sin(x)))", 3),
            ("inner(exp(x))", 4),
            ("concat((inner(x), x))", 5),
            ("tanh(split(inner(x)).1)", 6),
            ("exp(repeat[1..3] add(x, inner(x)))", 13),
        ],
    ),
)
def test_patterns_have_ten_thousand_calls(operand: str, calls: int) -> None:
    """Alternatives make up for what `operand` has less."""

    def written(total: int) -> str:
        left = total - 98 * 100 - calls - 1
        hundred, more = " | ".join(["k(_)"] * 98), " | ".join(["exp(_)"] * left)
        return f"""
          pattern inner(x) {{ y = exp(tanh(x)); yield y; }}
          pattern k(x) {{ y = ({" | ".join(["exp(x)"] * 99)}); yield y; }}
          pattern p(x) {{ a = {operand}; y = add(a, ({hundred} | {more})); yield y; }}"""

    assert "E0406" not in codes(written(10_000))
    assert "E0406" in codes(written(10_001))


@pytest.mark.parametrize(("number", "wanted"), [(100, []), (101, ["E0105"])])
def test_a_hundred_names_lead_to_each_other(number: int, wanted: list[str]) -> None:
    lets = "".join(f"let c{at} = one_of(c{at + 1});" for at in range(number - 1))
    calls = "".join(
        f"pattern p{at}(x) {{ y = p{at + 1}(x); yield y; }}" for at in range(number - 1)
    )
    last = f"pattern p{number - 1}(x) {{ yield x; }}"

    assert codes(f"{lets} let c{number - 1} = one_of(exp);") == wanted
    assert messages(f"{lets} let c{number - 1} = one_of(exp);") == [
        "more than 100 classes use each other here" for _ in wanted
    ]
    assert ("E0105" in codes(calls + last)) == bool(wanted)
    assert ("more than 100 patterns call each other here" in messages(calls + last)) == bool(wanted)


def test_nothing_else_is_said_of_a_pattern_beyond_a_bound() -> None:
    def chain(last: int) -> str:
        names = "".join(f"a{at} = a{at - 1};" for at in range(1, last + 1))
        return f"pattern p(x, z) {{ a0 = exp(x); {names} yield a{last}; }}"

    hundred = " | ".join(["exp(x)"] * 100)
    many = " | ".join(["k(x)"] * 100)
    large = (
        f"pattern k(x) {{ y = ({hundred}); yield y; }} pattern p(x, z) {{ y = ({many}); yield y; }}"
    )

    assert messages(chain(99)) == ["the result `a99` does not use `z`"]
    assert messages(chain(100)) == ["the pattern is more than 100 levels deep here"]
    assert set(messages(large)) == {
        "an earlier alternative is the same, so this one adds nothing",
        "this pattern has more than 10000 calls, with those of called patterns",
    }


def pattern_where(*conditions: str) -> str:
    wheres = "".join(f"where {each};\n" for each in conditions)
    return f"pattern p(x) {{ y = exp(x);\n{wheres}yield y; }}"


def found_in(text: str) -> list[Diagnostic]:
    return list(check(Source("t.collage", f"collage 1; {text}")))


@pytest.mark.parametrize("value", ["x", "y"])
def test_no_shape_of_a_million_dimensions_is_inferred(value: str) -> None:
    """This took hours."""
    text = f"pattern p(x) {{ y = nn.relu(x); where rank({value}) == 3458298; yield y; }}"

    assert codes(f"{text} target t on llvm {{ rules dfpattern(p); }}") == []


@pytest.mark.parametrize(("count", "wanted"), [(32, ["E0320"]), (33, [])])
def test_of_more_than_32_alternatives_nothing_is_concluded(count: int, wanted: list[str]) -> None:
    some = " or ".join(f"dim(x, 0) == {at}" for at in range(count))
    every = " and ".join(f"dim(x, 0) != {at}" for at in range(count))

    assert codes(pattern_where(some, "dim(x, 0) == 50")) == wanted
    assert codes(pattern_where(f"not ({every})", "dim(x, 0) == 50")) == wanted
    assert codes(pattern_where(f"{some} or rank(x) == 1", "dim(x, 0) == 50", "rank(x) == 2")) == (
        wanted if count < 32 else []
    )


@pytest.mark.slow
def test_why_a_condition_is_needless_is_said_as_long_as_that_is_quick() -> None:
    choices = " or ".join(f"dim(x, 1) == {at}" for at in range(28))
    *same, last = found_in(pattern_where(*[choices] * 7, "dim(x, 1) == 50"))

    noted = [("W0330", 1)] * 4 + [("W0330", 0)] * 2
    assert [(found.code, len(found.notes)) for found in same] == noted
    assert last.message == "this can never hold together with the other conditions"
    assert last.notes == ()


def one_of(numbers: range) -> str:
    return " or ".join(f"dim(x, 1) == {at}" for at in numbers)


def test_alternatives_are_followed_as_long_as_that_is_quick() -> None:
    """What contradicts without them is found however many there were."""
    some = (
        one_of(range(30)),
        f"not not ({one_of(range(30))})",
        f"({one_of(range(30))}) and rank(x) < 9",
        f"rank(x) < 9 and ({one_of(range(30))})",
        f"not (not ({one_of(range(30))}) or rank(x) > 9)",
        f"not (rank(x) > 9 or not ({one_of(range(30))}))",
        "not dim(x, 1) in 40..60",
    )
    many = [pattern_where(*[one_of(range(30))] * 10) for _ in range(2)]
    many = [pattern.replace(" p(", f" p{at}(") for at, pattern in enumerate(many)]
    either = [pattern_where(each, "dim(x, 1) == 50") for each in some]
    either = [pattern.replace(" p(", f" q{at}(") for at, pattern in enumerate(either)]
    plain = pattern_where("dim(x, 1) == 1", "dim(x, 1) == 2").replace(" p(", " r(")

    def errors(*patterns: str) -> int:
        return [found.code for found in found_in("".join(patterns))].count("E0320")

    assert errors(*either, plain) == 8
    assert errors(*either, *many, plain) == 8
    assert errors(*many, *either, plain) == 1


def test_what_comes_before_too_many_alternatives_is_looked_at() -> None:
    first = ("dim(x, 0) in [1, 2, 3]", "dim(x, 0) < 3")
    found = found_in(pattern_where(*first, *[one_of(range(30))] * 40))

    assert [(each.code, each.span.text) for each in found if each.code != "W0330"] == [
        ("W0331", "3")
    ]


@pytest.mark.parametrize(("count", "wanted"), [(32, ["E0320"]), (33, [])])
@pytest.mark.parametrize("form", ["{}", "not not ({})", "rank(x) == 9 or ({})", "not ({not_})"])
def test_alternatives_count_that_cannot_be(form: str, count: int, wanted: list[str]) -> None:
    count -= form.startswith("rank")
    each = [f"(dim(x, 0) == {at} and dim(x, 1) == 7)" for at in range(count)]
    some = form.format(" or ".join(each), not_=" and ".join(f"not {one}" for one in each))
    nested = form.format(_nested_or(each), not_=" and ".join(f"not {one}" for one in each))

    for written in (some, nested):
        premises = ("dim(x, 0) < 3", "rank(x) < 9", written, "dim(x, 1) == 8")
        assert codes(pattern_where(*premises)) == wanted


def _nested_or(each: list[str]) -> str:
    """The same alternatives, half of them in brackets."""
    middle = len(each) // 2
    return f"{' or '.join(each[:middle])} or ({' or '.join(each[middle:])})"


def test_why_a_choice_is_named_in_vain_is_said_as_long_as_that_is_quick() -> None:
    found = found_in(pattern_where(*ranges(30)))

    assert {each.code for each in found} == {"W0331"}
    assert len(found) == 30 * 29
    assert [len(each.notes) for each in (found[0], found[-1])] == [1, 0]


def test_more_choices_than_are_shown_are_named_in_vain() -> None:
    found = found_in(pattern_where(*ranges(40)))

    assert [each.code for each in found] == ["W0331"] * 1000 + ["W0109"]


def ranges(count: int) -> list[str]:
    """Conditions that each rule out some of the choices of the others."""
    each = (", ".join(map(str, range(at, at + 100))) for at in range(1, count + 1))
    return [f"dim(x, 0) in [{numbers}]" for numbers in each]
