"""`generate(seed)`: one training program as source text, with what it is made of and the faults it is meant to hold."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.generated.features import Features, choose, disputed, intended
from tests.generated.render import render


@dataclass(frozen=True)
class Program:
    """A program. `features` is plain data: the composition, `call` (how to run it), `marks` (construct -> lines).

    `entry` is the name of the function or class that `call` drives.
    """

    source: str
    entry: str
    features: Features

    @property
    def intended(self) -> set[tuple[str, int]]:
        """The (code, line) pairs that the composition should bear, by construction."""
        lines = self.features["marks"]
        return {(code, line) for code, mark in intended(self.features) for line in lines[mark]}

    @property
    def disputed(self) -> list[str]:
        return disputed(self.features)


def generate(seed: int) -> Program:
    """The program of a seed: the same text for the same seed, always."""
    rng = random.Random(f"accumlint-{seed}")
    features = choose(rng)
    return build(features, rng.randrange(2**32), seed)


def build(features: Features, style_seed: int, seed: int | None = None) -> Program:
    """Write a composition; `style_seed` fixes names and spelling."""
    features = {key: value for key, value in features.items() if key not in ("marks", "call")}
    rendered = render(features, random.Random(style_seed))
    features.update(
        seed=seed,
        style_seed=style_seed,
        marks=rendered.marks,
        call=rendered.call,
        ignore_value=rendered.ignore,
        token_keys=rendered.keys,
    )
    return Program(rendered.source, rendered.entry, features)
