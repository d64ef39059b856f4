"""Draw docs/images/*.svg: what commands print on a terminal, by rich's SVG export.

Usage: python scripts/readme_picture.py [--check]   (--check: exit 1 if a picture is not what the tool prints)
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
IMAGES = ROOT / "docs" / "images"
PICTURES = {
    IMAGES / "check.svg": ("check", "samples/trainer_class_clip.py", "samples/off_by_one.py", "--color", "--isolated"),
    IMAGES / "explain.svg": ("explain", "docs/tutorial/finetune.py"),
}
WIDTH = 110


def picture(arguments: tuple[str, ...]) -> str:
    """The SVG text of what a command prints. It loads no fonts: the reader's own monospace font is used."""
    environment = {
        **os.environ,
        "COLUMNS": str(WIDTH),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": str(ROOT),
        "FORCE_COLOR": "1",
    }
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "accumlint", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != (1 if arguments[0] == "check" else 0):
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr}")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(
        Text.assemble(("$ ", "bold green"), f"accumlint {' '.join(a for a in arguments if not a.startswith('--'))}")
    )
    console.print(Text.from_ansi(done.stdout.rstrip()))
    svg = console.export_svg(title="accumlint", theme=MONOKAI, unique_id="accumlint")
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE).rstrip() + "\n"


def main(arguments: list[str]) -> int:
    """Write or check the pictures; return the exit code."""
    stale = 0
    for path, command in PICTURES.items():
        text = picture(command)
        if "--check" in arguments:
            stale += not path.exists() or path.read_text(encoding="utf-8") != text
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
