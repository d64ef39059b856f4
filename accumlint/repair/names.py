"""Names for what a repair inserts: they occur nowhere in the file, not even in a string."""

from __future__ import annotations

import re


class Names:
    """Hands out names that the file does not hold, each once."""

    def __init__(self, text: str) -> None:
        self._taken = set(re.findall(r"\w+", text))

    def free(self, wanted: str) -> str:
        """`wanted`, or `wanted_2`, `wanted_3`, ... if it is taken."""
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name
