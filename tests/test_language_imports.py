"""Files that import each other."""

from pathlib import Path

import pytest

from collage_dsl.diagnostics import RuleError
from collage_dsl.language import check, load, loading, read, to_text
from collage_dsl.language.loading import imported

TARGET = "target t on llvm { rules dfpattern(p); }"


def write(folder: Path, **files: str) -> Path:
    """Files with these texts; the first."""
    for name, text in files.items():
        (folder / f"{name}.collage").write_text(f"collage 1; {text}")
    return folder / f"{next(iter(files))}.collage"


def codes(path: Path) -> list[str]:
    return [diagnostic.code for diagnostic in check(read(path))]


def test_a_file_is_found_beside_the_one_that_imports_it(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        a=f'import "b.collage" only (f); pattern p(x) {{ y = f(exp(x)); yield y; }} {TARGET}',
        b="pattern f(x) { y = nn.relu(x); yield y; }",
    )

    assert codes(path) == []
    assert list(load(path)) == ["t"]


def test_a_file_is_found_on_the_search_path(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    write(tmp_path / "lib", b="pattern f(x) { y = nn.relu(x); yield y; }")
    path = write(
        tmp_path,
        a=f'import "b.collage" as b; pattern p(x) {{ y = b.f(exp(x)); yield y; }} {TARGET}',
    )

    assert codes(path) == ["E0801"]
    assert list(load(path, search=[tmp_path / "lib"])) == ["t"]


def test_the_text_of_a_spec_needs_no_other_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        a=f"""import "b.collage" only (f);
            pattern inner(x) {{ y = tanh(x); yield y; }}
            pattern p(x) {{ y = f(inner(x)); yield y; }} {TARGET}""",
        b="""let act = one_of(nn.relu, nn.gelu);
            pattern inner(x) { y = act(x); yield y; }
            pattern f(x) { y = inner(exp(x)); yield y; }""",
    )
    specs = load(path)
    text = to_text(specs)

    assert "import" not in text
    assert "pattern inner(x)" in text
    assert "pattern inner_2(x)" in text
    assert load(text=text) == specs


@pytest.mark.parametrize("second", ["a", "b"])
def test_files_that_import_each_other_are_refused(tmp_path: Path, second: str) -> None:
    path = write(
        tmp_path,
        a='import "b.collage" as b; pattern p(x) { y = b.f(x); yield y; }',
        b=f'import "{second}.collage" as c; pattern f(x) {{ y = c.p(x); yield y; }}',
    )

    (found,) = check(read(path))
    assert found.code == "E0804"
    assert "import" in found.notes[0].message
    assert codes(tmp_path / "b.collage") == (["E0802"] if second == "b" else ["E0804"])


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")])
def test_files_checked_together_have_the_findings_that_each_has_alone(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    write(
        tmp_path,
        a='import "b.collage" as b; pattern p(x) { y = b.f(x); yield y; }',
        b='import "a.collage" as a; pattern f(x) { y = a.p(x); yield y; }',
        c='import "b.collage" as b; pattern p(x) { y = b.f(x); yield y; }',
    )
    files = [read(tmp_path / f"{name}.collage") for name in order]
    library = imported()

    assert [check(each, library=library) for each in files] == [check(each) for each in files]


def test_files_checked_together_read_an_import_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        a='import "c.collage" as c; pattern p(x) { y = c.f(x); yield y; }',
        b='import "c.collage" as c; pattern p(x) { y = c.f(exp(x)); yield y; }',
        c="pattern f(x) { y = nn.relu(x); yield y; }",
    )
    library = imported()
    assert check(read(tmp_path / "a.collage"), library=library) == ()
    write(tmp_path, c="pattern f(x) { y = nothing(x); yield y; }")

    assert check(read(tmp_path / "b.collage"), library=library) == ()
    assert codes(tmp_path / "b.collage") == ["E0804"]


def test_a_file_is_not_examined_again_after_it_was_imported_without_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        tmp_path,
        a='import "b.collage" as b; pattern p(x) { y = b.f(x); yield y; }',
        b="pattern f(x) { y = nn.relu(x); yield y; }",
    )
    library = imported()
    assert check(read(path), library=library) == ()
    monkeypatch.delattr(loading, "parse_file")

    assert check(read(tmp_path / "b.collage"), library=library) == ()
    with pytest.raises(NameError):
        check(read(path), library=library)


@pytest.mark.parametrize(
    "text",
    [
        "pattern f(x) { y = nn.relu(x); yield y; } # collage: ignore[W0405] it is of a library",
        "pattern f(x) { y = nn.relu(x); where rank(x) == 1 and rank(x) < 3; yield y; }",
        "pattern f(x) { y = nothing(x); yield y; }",
    ],
)
def test_an_imported_file_has_the_findings_that_it_has_alone(tmp_path: Path, text: str) -> None:
    right = "pattern f(x) { y = nn.relu(x); yield y; }"
    path = write(
        tmp_path, a='import "b.collage" as b; pattern p(x) { y = b.f(x); yield y; }', b=text
    )
    library = imported()
    for written in (text, right, text):
        write(tmp_path, b=written)
        check(read(path), library=library)
        file = read(tmp_path / "b.collage")
        assert check(file, library=library) == check(file)


def test_a_chain_of_imports_is_not_long(tmp_path: Path) -> None:
    files = {
        f"f{n}": f'import "f{n + 1}.collage" only (p); pattern q(x) {{ y = p(x); yield y; }}'
        for n in range(80)
    }

    assert codes(write(tmp_path, **files)) == ["E0804"]


def test_a_file_imported_in_many_ways_is_read_once(tmp_path: Path) -> None:
    files = {
        f"f{n}": f"""import "f{n + 1}.collage" as a; import "f{n + 1}.collage" as b;
            pattern p(x) {{ y = a.p(x); yield y; }} pattern q(x) {{ y = b.q(x); yield y; }}"""
        for n in range(30)
    }
    end = "pattern p(x) { y = nn.relu(x); yield y; } pattern q(x) { y = exp(x); yield y; }"

    assert codes(write(tmp_path, **files, f30=end)) == []


def test_an_imported_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, a='import "b.collage" as b; rule r = b.r;')
    (tmp_path / "b.collage").write_bytes(b"\xff\xfe")

    with pytest.raises(RuleError) as caught:
        load(path)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E0804"]


def test_the_first_mistake_is_shown_through_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path,
        a='import "b.collage" as b; rule r = dfpattern(b.q);',
        b='import "c.collage" as c; pattern q(x) { y = c.p(x); yield y; }',
        c="pattern p(x) { y = nn.rely(x); yield y; }",
    )
    monkeypatch.chdir(tmp_path)

    (found,) = check(read("a.collage"))

    assert [(note.span.source.name, note.message) for note in found.notes if note.span] == [
        ("b.collage", "`c.collage` has 1 error"),
        ("c.collage", "unknown operator `nn.rely`"),
    ]
