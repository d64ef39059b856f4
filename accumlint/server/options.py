"""What an editor can set: the `initializationOptions` of the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accumlint.cli.errors import nearest


@dataclass(frozen=True, slots=True)
class Options:
    """`debounce` is how long the text must rest before it is checked, in seconds."""

    config: str | None = None
    confirm: bool = True
    debounce: float = 0.3


def read(given: object) -> tuple[Options, list[str]]:
    """The options, and what is wrong with those that are left out of them.

    Editors send `debounce` in milliseconds; some put everything below `settings`.
    """
    if not isinstance(given, Mapping):
        return Options(), [] if given is None else ["the initialization options are not an object"]
    inner = given.get("settings")
    options = inner if isinstance(inner, Mapping) else given
    config, confirm, debounce = options.get("config"), options.get("confirm", True), options.get("debounce", 300)
    wrong = [f'unknown option "{name}"{nearest(str(name), KNOWN)}' for name in options if name not in KNOWN]
    if not (config is None or isinstance(config, str)):
        config, wrong = None, [*wrong, f'"config" is the path of a pyproject.toml, not {config!r}']
    if not isinstance(confirm, bool):
        confirm, wrong = True, [*wrong, f'"confirm" is true or false, not {confirm!r}']
    if isinstance(debounce, bool) or not isinstance(debounce, (int, float)) or not 0 <= debounce <= 60_000:
        debounce, wrong = 300, [*wrong, f'"debounce" is a number of milliseconds up to 60000, not {debounce!r}']
    return Options(config or None, confirm, debounce / 1000), wrong


KNOWN = ("config", "confirm", "debounce")
