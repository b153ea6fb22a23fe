"""Where texts come from: paths, names, folders, and files that are being edited."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from collage_dsl.diagnostics import RuleError
from collage_dsl.language import UnreadableError, check, load, read, to_text
from collage_dsl.language.loading import definitions, patterns
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.resolve.imports import Exports, Library
from collage_dsl.language.resolve.pattern_tables import table
from collage_dsl.language.syntax.ast import Import
from collage_dsl.language.syntax.parser import parse_file
from collage_dsl.language.syntax.whole_text import MAX_CHARACTERS
from collage_dsl.rules import Pattern
from collage_dsl.rules.predicate import Predicate
from collage_dsl.source import Source

RELU = "collage 1; pattern f(x) { y = nn.relu(x); yield y; }\n"
USES = """collage 1;
import "b.collage" only (f);
pattern p(x) { y = f(exp(x)); yield y; }
target t on llvm { rules dfpattern(p); }
"""
WRONG = 'collage 1; target t on llvm { rules dfpattern("f"); }'

Read = Callable[..., Mapping[str, object]]
reads = pytest.mark.parametrize("read_it", [load, patterns])


def write(folder: Path, **texts: str) -> Path:
    """Files with these texts; the first."""
    for name, text in texts.items():
        (folder / f"{name}.collage").write_text(text)
    return folder / f"{next(iter(texts))}.collage"


def messages(*found: object) -> list[str]:
    return [str(each).splitlines()[0] for each in found]


# What is given.


@reads
@pytest.mark.parametrize("given", [{}, {"path": "a.collage", "text": RELU}])
def test_either_a_path_or_a_text_is_given(read_it: Read, given: Mapping[str, str]) -> None:
    with pytest.raises(TypeError, match=r"^give either a path or a text$"):
        read_it(**given)


@reads
def test_messages_call_a_text_by_its_name(read_it: Read) -> None:
    with pytest.raises(RuleError) as plain:
        read_it(text=WRONG)
    with pytest.raises(RuleError) as named:
        read_it(text=WRONG, name="given.collage")

    assert str(plain.value).startswith("<text>:1:")
    assert str(named.value).startswith("given.collage:1:")


@reads
def test_messages_call_a_file_by_its_path_or_as_is_said(read_it: Read, tmp_path: Path) -> None:
    path = write(tmp_path, a=WRONG)
    with pytest.raises(RuleError) as plain:
        read_it(path)
    with pytest.raises(RuleError) as named:
        read_it(path, name="shown.collage")

    assert str(plain.value).startswith(f"{path}:1:")
    assert str(named.value).startswith("shown.collage:1:")


@reads
def test_imports_are_beside_the_file_whatever_it_is_called(read_it: Read, tmp_path: Path) -> None:
    path = write(tmp_path, a=USES, b=RELU)

    assert read_it(path, name="shown.collage")


@reads
def test_imports_of_a_text_are_looked_for_where_is_said(read_it: Read, tmp_path: Path) -> None:
    write(tmp_path, b=RELU)

    assert read_it(text=USES, search=[tmp_path])


def test_patterns_are_those_of_the_file_and_those_it_imports(tmp_path: Path) -> None:
    path = write(tmp_path, a=USES, b=RELU)

    assert {name: found.name for name, found in patterns(path).items()} == {"f": "f", "p": "p"}
    assert patterns(text=RELU)["f"] == patterns(path)["f"]


def test_a_text_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, b=RELU)
    monkeypatch.chdir(tmp_path)

    assert messages(*check(Source("no file", USES))) == [
        "no file:2:8: error[E0801]: there is no file `b.collage`"
    ]


def test_a_folder_may_be_said_for_a_text(tmp_path: Path) -> None:
    write(tmp_path, b=RELU)

    assert check(Source("no file", USES), folder=tmp_path) == ()


def test_what_is_being_edited_counts_in_place_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, a=USES, b="collage 1;\n")
    beside = (tmp_path / "b.collage").resolve()

    assert [found.code for found in check(read(path))] == ["E0803"]
    assert check(read(path), texts={beside: RELU}) == ()
    (found,) = check(read(path), texts={beside: WRONG})
    assert found.notes[0].span.source.name == str(tmp_path / "b.collage")
    assert found.notes[0].span.source.text == WRONG


# What cannot be read.


def test_a_name_with_a_null_character_is_no_file() -> None:
    with pytest.raises(UnreadableError, match=r"^cannot read a.b: its name has a null character$"):
        read("a\0b")


def test_why_a_file_cannot_be_read_is_said_in_few_words(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as caught:
        read(tmp_path / "none.collage")
    assert str(caught.value) == f"cannot read {tmp_path / 'none.collage'}: there is no such file"


def test_of_a_file_that_is_too_large_only_a_part_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.collage"
    most = 4 * MAX_CHARACTERS + 4
    path.write_text("#" + "é" * most, "utf-8")  # the part ends within a character

    source = read(path)

    assert len(source.text.encode()) <= most + 2
    assert [found.code for found in check(source)] == ["E0106"]


def test_why_an_imported_file_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, a=USES)
    (tmp_path / "b.collage").write_bytes(b"\xff\xfe")

    with pytest.raises(RuleError) as caught:
        load(path)
    (found,) = caught.value.diagnostics
    assert found.message == "`b.collage` has 1 error"
    beside = tmp_path / "b.collage"
    assert found.notes[0].message == f"cannot read {beside}: it is not UTF-8 (byte 0)"
    assert found.notes[0].span.source == Source(str(beside), "")
    assert (found.notes[0].span.start, found.notes[0].span.end) == (0, 0)
    (inner,) = caught_by_import(beside).diagnostics
    assert inner.code == "E0801"


def caught_by_import(path: Path) -> RuleError:
    with pytest.raises(RuleError) as caught:
        definitions(path)
    return caught.value


def test_an_imported_file_with_too_many_errors_is_an_error(tmp_path: Path) -> None:
    wrong = "".join(f"rule r{at} = dfpattern(p{at});\n" for at in range(500))
    path = write(tmp_path, a=USES, b=f"collage 1;\n{wrong}")

    (found,) = check(read(path))
    assert found.code == "E0804"
    assert found.message == "`b.collage` has 101 errors"
    assert found.notes[0].span.source.name == str(tmp_path / "b.collage")


# Imports of files.


def test_messages_call_an_imported_file_as_the_import_does(tmp_path: Path) -> None:
    """Where it is not beside the file; there, by its path."""
    path = write(tmp_path, a=USES)
    (tmp_path / "lib").mkdir()
    write(tmp_path / "lib", b=WRONG)

    (found,) = check(read(path), search=[tmp_path / "lib"])
    assert found.notes[0].span.source.name == "b.collage"


def test_a_file_does_not_import_itself(tmp_path: Path) -> None:
    text = 'collage 1; import "b.collage" only (f); pattern p(x) { y = f(x); yield y; }'
    path = write(tmp_path, b=text, a=USES)

    assert messages(*check(read(path))) == [
        f"{path}:1:19: error[E0802]: this file imports itself",
    ]
    assert messages(*caught_by_import(path).diagnostics) == messages(*check(read(path)))


def test_files_do_not_import_each_other(tmp_path: Path) -> None:
    b = 'collage 1; import "a.collage" only (p); pattern f(x) { y = p(x); yield y; }'
    path = write(tmp_path, a=USES, b=b)

    (found,) = check(read(path))
    assert found.notes[0].message == "`a.collage` imports this file"


@pytest.mark.parametrize(("files", "wanted"), [(50, []), (51, ["E0804"])])
def test_fifty_files_may_import_each_other_in_a_chain(
    tmp_path: Path, files: int, wanted: list[str]
) -> None:
    texts = {
        f"f{n}": f'collage 1; import "f{n + 1}.collage" only (f as g);'
        "pattern f(x) { y = g(x); yield y; }"
        for n in range(files - 1)
    }
    path = write(tmp_path, **texts, **{f"f{files - 1}": RELU})

    assert [found.code for found in check(read(path))] == wanted


def test_a_longer_chain_is_refused_where_it_becomes_too_long(tmp_path: Path) -> None:
    source = read(write(tmp_path, a=USES, b=RELU))
    findings = Findings()
    (written, *_) = parse_file(source, findings).items
    assert isinstance(written, Import)
    library = Library((), lambda *_: Exports(), active=[tmp_path / str(n) for n in range(50)])

    assert library.exports(written, tmp_path, findings) is None
    assert messages(*findings.in_order()) == [
        f"{tmp_path}/a.collage:2:8: error[E0802]: more than 50 files import each other here"
    ]


def test_no_file_has_a_null_character_or_a_long_name(tmp_path: Path) -> None:
    long = USES.replace("b.collage", "b" * 5000)
    null = USES.replace("b.collage", "b\0.collage")

    assert [found.code for found in check(Source("t", long), folder=tmp_path)] == ["E0801"]
    unnamed, hidden = check(Source("t", null), folder=tmp_path)
    assert hidden.code == "E0109"
    assert unnamed.message == "an import needs a relative path"


def test_a_predicate_is_imported(tmp_path: Path) -> None:
    b = 'collage 1; extern predicate small(x) from "checks:small";'
    a = """collage 1; import "b.collage" only (small);
        pattern p(x) { y = exp(x); where small(x); yield y; }
        target t on llvm { rules dfpattern(p); }"""
    path = write(tmp_path, a=a, b=b)

    assert 'extern predicate small(x) from "checks:small";' in to_text(load(path))


def test_predicates_of_one_name_are_told_apart_in_the_text_of_a_spec(tmp_path: Path) -> None:
    condition = "not {0}(x) or rank(x) == 2 and ({0}(x) == {0}(y) or {0}(y) in [true])"
    b = """collage 1; extern predicate ok(x) from "b:ok";
        pattern f(x) { y = nn.relu(x); where ok(x); yield y; }"""
    a = f"""collage 1; import "b.collage" only (f); extern predicate ok(x) from "a:ok";
        pattern p(x) {{
          y = f(exp(x));
          where {condition.format("ok")};
          where dtype(x) in [f32];
          yield y;
        }}
        target t on llvm {{ rules dfpattern(p); }}"""
    specs = load(write(tmp_path, a=a, b=b))
    text = to_text(specs)

    assert 'extern predicate ok(x) from "b:ok";' in text
    assert 'extern predicate ok_2(x) from "a:ok";' in text
    assert "where ok(x);" in text
    assert f"where {condition.format('ok_2')};" in text
    assert "where dtype(x) in [f32];" in text
    assert load(text=text) == specs


# What a file defines.


def test_definitions_are_all_that_an_import_could_name(tmp_path: Path) -> None:
    text = """collage 1;
        let act = one_of(nn.relu, tanh);
        extern predicate small(x) from "checks:small";
        pattern p(x) { y = act(x); where small(x); yield y; }
        rule r = dfpattern(p);
        target t on llvm { rules r; }"""
    found = definitions(write(tmp_path, a=text))

    assert list(found) == ["act", "small", "p", "r"]
    assert isinstance(found["p"], Pattern)
    assert isinstance(found["small"], Predicate)


def test_definitions_are_found_as_imports_are(tmp_path: Path) -> None:
    write(tmp_path, b=RELU)

    assert list(definitions("b.collage", [tmp_path])) == ["f"]
    assert "act" in definitions("std/activations.collage")


def test_definitions_say_what_an_import_would() -> None:
    with pytest.raises(RuleError) as caught:
        definitions("std/activation")
    assert str(caught.value) == (
        "<import>:1:1: error[E0801]: there is no file `std/activation`\n"
        "1 | std/activation\n"
        "    ^^^^^^^^^^^^^^\n"
        "help: did you mean `std/activation.collage`?"
    )


def test_the_rule_of_a_pattern_table_is_written_out() -> None:
    text = """collage 1; import pattern_table "cudnn" as c; target t on llvm { rules c.all; }"""
    specs = load(text=text)

    assert specs["t"].rule == table("cudnn").all
    assert load(text=to_text(specs)) == specs
