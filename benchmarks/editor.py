"""
Time what an editor waits for, through the protocol, on a spec of 1 000 lines.

    python benchmarks/editor.py [--rounds 20] [--json]

Each round changes a line and waits for the diagnostics; asks for hover, completion and definition;
then changes a line and asks each of them at once. Shows milliseconds, the median and the worst.
Needs the extra `lsp`, and no TVM.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from lsprotocol import types
from pygls.lsp.client import LanguageClient

sys.path.insert(0, str(Path(__file__).parent))

from check import BLOCK

QUESTIONS = ("hover", "completion", "definition")
LIMITS = {"diagnostics": 300, **dict.fromkeys(QUESTIONS, 50)}
"""The most milliseconds that each may take."""


def thousand_lines() -> str:
    blocks = "".join(map(BLOCK.format, range(1_000 // BLOCK.count("\n"))))
    text = f"collage 1;\n\n{blocks}"
    return text + "# A comment.\n" * (1_000 - text.count("\n"))


class Editor:
    """One open document."""

    def __init__(self, folder: Path) -> None:
        self.uri = (folder / "large.collage").as_uri()
        self.folder = folder
        self.version = 1
        self.client = LanguageClient("benchmark", "1")
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def note(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

    async def start(self, text: str) -> None:
        await self.client.start_io(sys.executable, "-m", "collage_dsl.cli.main", "lsp")
        folders = [types.WorkspaceFolder(self.folder.as_uri(), "here")]
        said = types.InitializeParams(types.ClientCapabilities(), workspace_folders=folders)
        await self.client.initialize_async(said)
        self.client.initialized(types.InitializedParams())
        item = types.TextDocumentItem(self.uri, "collage", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await self.published.get()

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    def change(self, text: str) -> None:
        self.version += 1
        document = types.VersionedTextDocumentIdentifier(self.version, self.uri)
        whole = types.TextDocumentContentChangeWholeDocument(text)
        said = types.DidChangeTextDocumentParams(document, [whole])
        self.client.text_document_did_change(said)

    async def diagnostics(self, text: str) -> float:
        """The milliseconds from a change to what is wrong with the new text."""
        start = time.perf_counter()
        self.change(text)
        await self.published.get()
        return _since(start)

    async def answer(self, what: str, at: types.Position) -> float:
        """The milliseconds of a question."""
        document = types.TextDocumentIdentifier(self.uri)
        start = time.perf_counter()
        found: object
        match what:
            case "hover":
                said = types.HoverParams(document, at)
                found = await self.client.text_document_hover_async(said)
            case "completion":
                asked = types.CompletionParams(document, at)
                found = await self.client.text_document_completion_async(asked)
            case _:
                where = types.DefinitionParams(document, at)
                found = await self.client.text_document_definition_async(where)
        assert found, "there is an answer"
        return _since(start)


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1_000


async def measured(rounds: int) -> dict[str, list[float]]:
    text = thousand_lines()
    found: defaultdict[str, list[float]] = defaultdict(list)
    line = text[: text.index("  k = nn.conv2d", len(text) // 2)].count("\n")
    places = {"hover": 8, "completion": 8, "definition": 16}
    with TemporaryDirectory() as folder:
        editor = Editor(Path(folder).resolve())
        await editor.start(text)
        for at in range(rounds):
            # Each change makes a mistake in the first pattern, or removes it.
            changed = text.replace("nn.gelu", "nn.gelou", 1) if at % 2 else text
            found["diagnostics"].append(await editor.diagnostics(f"{changed}# {at}\n"))
            for what, column in places.items():
                place = types.Position(line, column)
                found[what].append(await editor.answer(what, place))
                editor.change(f"{changed}# {at} {what}\n")
                found[f"{what}, right after a change"].append(await editor.answer(what, place))
                await editor.published.get()
        await editor.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Time what an editor waits for.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    gc.disable()  # An editor does not stop for Python's search for cycles.
    found = asyncio.run(measured(arguments.rounds))
    rows = [
        (what, statistics.median(ms), max(ms), LIMITS[what.partition(",")[0]])
        for what, ms in found.items()
    ]
    if arguments.json:
        keys = ("what", "median_ms", "worst_ms", "limit_ms")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
        return
    print("| what | median ms | worst ms | limit ms |\n|---|---:|---:|---:|")
    for what, median, worst, limit in rows:
        print(f"| {what} | {median:.0f} | {worst:.0f} | {limit} |")


if __name__ == "__main__":
    main()
