"""Write docs/rules/ACCNNN.md and docs/rules/index.md from the rules. Usage: python scripts/generate_rule_pages.py"""

from __future__ import annotations

from pathlib import Path

from accumlint.rules.page import index, page
from accumlint.rules.registry import all_rules

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "rules"


def pages() -> dict[str, str]:
    """File name -> text, for every page and the index."""
    rules = all_rules()
    return {f"{rule.code}.md": page(rule) for rule in rules} | {"index.md": index(rules)}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for stale in FOLDER.glob("*.md"):
        if stale.name not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
