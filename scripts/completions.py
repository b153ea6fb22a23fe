"""Write the completion files of bash, zsh and fish to `completions`."""

from pathlib import Path

from click.shell_completion import get_completion_class

from collage_dsl.cli.main import app

FOLDER = Path(__file__).parent.parent / "completions"

FILES = {"bash": "collage.bash", "zsh": "_collage", "fish": "collage.fish"}
"""The file for each shell, with the name that the shell looks for."""


def completion(shell: str) -> str:
    """The file for `shell`. It asks `collage` itself, so it need not change with the commands."""
    shell_complete = get_completion_class(shell)
    assert shell_complete is not None
    made = shell_complete(app, {}, "collage", "_COLLAGE_COMPLETE")
    # Not `source()`, which would run the shell.
    return (made.source_template % made.source_vars()).strip() + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for shell, name in FILES.items():
        (FOLDER / name).write_text(completion(shell), "utf-8")
