"""
What is tested is the package that is installed, not the sources beside the tests: the root of
the repository, where the tests' own modules are found, comes last, here and in subprocesses.
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
os.environ["PYTHONSAFEPATH"] = "1"
