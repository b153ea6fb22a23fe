"""The command, without an editor."""

import subprocess
import sys


def test_without_pygls_the_command_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['pygls'] = None; sys.modules['lsprotocol'] = None\n"
        "sys.argv = ['collage', 'lsp']\n"
        "from collage_dsl.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 2
    assert "pip install 'collage_dsl[lsp]'" in done.stderr


def test_the_command_line_starts_without_the_server() -> None:
    script = "import sys; import collage_dsl.cli.main; sys.exit('pygls' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
