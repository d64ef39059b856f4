"""Draw docs/images/check.svg: what `accumlint check` prints on a terminal, by rich's SVG export.

Usage: python scripts/readme_picture.py [--check]   (--check: exit 1 if the picture is not what the tool prints)
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "check.svg"
ARGUMENTS = ("check", "samples/trainer_class_clip.py", "samples/off_by_one.py")
WIDTH = 110


def picture() -> str:
    """The SVG text. It loads no fonts: the reader's own monospace font is used."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "accumlint", *ARGUMENTS, "--color", "--isolated"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 1:
        raise RuntimeError(f"expected findings, not exit code {done.returncode}: {done.stderr}")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.assemble(("$ ", "bold green"), f"accumlint {' '.join(ARGUMENTS)}"))
    console.print(Text.from_ansi(done.stdout.rstrip()))
    svg = console.export_svg(title="accumlint", theme=MONOKAI, unique_id="accumlint")
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE).rstrip() + "\n"


def main(arguments: list[str]) -> int:
    """Write or check the picture; return the exit code."""
    text = picture()
    if "--check" in arguments:
        return 0 if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == text else 1
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
