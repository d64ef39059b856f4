"""A command whose help lists its options in sections, as ruff's does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

COLUMN = 30  # where the texts begin, in every section


class Sectioned(click.Command):
    """`sections` holds the names of the options under each heading; any other stands under "Options"."""

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.sections = {"Options": (), **sections}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each once."""
        heading_of = {name: heading for heading, names in self.sections.items() for name in names}
        listed: dict[str, list[tuple[str, str]]] = {heading: [] for heading in self.sections}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                name, text = record
                listed[heading_of.get(parameter.name or "", "Options")].append((name.ljust(COLUMN), text))
        for heading, records in listed.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records, col_max=COLUMN)
