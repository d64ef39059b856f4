"""Text from files and programs, made safe to print."""

from __future__ import annotations


def printable(text: str) -> str:
    """Control characters (a file name or a source line may hold them) as escapes; tabs stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\t" else f"\\x{ord(char):02x}" for char in text)
