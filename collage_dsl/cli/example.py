"""`collage example`: show a small graph that a pattern matches."""

from collage_dsl.cli.answer import answer
from collage_dsl.cli.documents import ExampleDocument
from collage_dsl.cli.why import load_pattern
from collage_dsl.witness.example import Example, example


def show_example(named: str, output_format: str) -> None:
    """Write an example of the pattern `named` as a test. Raises NoExampleError."""
    pattern = load_pattern(named)
    found = example(pattern)
    document = ExampleDocument(
        pattern=pattern.name,
        graph=str(found),
        at=found.at,
        nodes=sorted(found.nodes),
        test=_test(pattern.name, found),
    )
    answer(document, document.test, output_format)


def _test(pattern: str, found: Example) -> str:
    graph = "".join(f"  {line}\n" for line in str(found).splitlines())
    calls = (found.graph.set_of(*found.nodes) & found.graph.calls).bit_count()
    expected = f"expect matches({pattern}, at: {found.at}, nodes: {calls}) == 1;"
    return f'test "an example of {pattern}" {{\n{graph}  {expected}\n}}\n'
