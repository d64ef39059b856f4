"""How gradients are averaged over ranks, and how a repair sums its count over them: once a window, on every rank."""

from __future__ import annotations

from dataclasses import dataclass

from accumlint.reading import ir
from accumlint.repair.boundary import Ending
from accumlint.repair.counts import Leaf
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout


@dataclass(frozen=True, slots=True)
class Averaging:
    """What the script's own library needs, as lines: `{count}` is this rank's count of the window, `{total}` the sum.

    A gradient is an average over ranks, possibly divided by the library's number of steps as well: `scaled` undoes
    both in `{scale}`. `gate` is true on the last microbatch of a window where the library, not the script, decides when
    to step.
    """

    world: str  # the number of ranks
    summed: tuple[str, ...]
    scaled: tuple[str, ...]
    gate: str = ""
    guard: str = ""  # a line before the loop: what the repair cannot run under
    imports: str = ""
    steps: str = ""  # what the library calls the number of steps
    divisor: str = ""  # the number of steps by which the library divides each loss, too

    def ahead(self, leaf: Leaf, counter: str, layout: Layout, names: Names) -> tuple[list[str], str]:
        """The lines that make a divisor for each loss sum of the count of a window, and its name: ranks and library
        average what is divided by it."""
        total = names.free("global_targets" if leaf.exact else "global_weight")
        mean = names.free("mean_targets" if leaf.exact else "mean_weight")
        averaged = " * ".join(each for each in (self.divisor, self.world) if each not in ("", "1"))
        written = [line.format(count=counter, total=total, unit=layout.unit) for line in self.summed]
        shared = f" / ({averaged})" if " * " in averaged else f" / {averaged}" if averaged else ""
        return [*written, f"{mean} = {leaf.guarded(total)}{shared}"], mean

    def lines(self, leaf: Leaf, counter: str, optimizer: str, layout: Layout, names: Names) -> list[str]:
        """Sum the count over the ranks and scale the gradients of the optimizer once."""
        total = names.free("global_targets" if leaf.exact else "global_weight")
        scale = names.free("grad_scale")
        written = [line.format(count=counter, total=total, unit=layout.unit) for line in self.summed]
        return [
            *written,
            *(line.format(scale=scale, total=leaf.guarded(total)) for line in self.scaled),
            *per_gradient(optimizer, f"mul_({scale})", layout, names),
        ]

    def prepare(self, layout: Layout, draft: Draft) -> None:
        """Import what the lines need."""
        imports = [statement for statement in layout.module.body if isinstance(statement, ir.Import)]
        plain = [s for s in imports if not any("__future__" in target for _, target in s.bindings)]
        near = [s for s in plain if any(target.startswith("torch.") for _, target in s.bindings)]
        first = next(iter(near or plain), None)
        if self.imports and first is not None:
            draft.before(first, self.imports)


def per_gradient(optimizer: str, change: str, layout: Layout, names: Names) -> list[str]:
    """The lines that change each gradient of an optimizer in place: `change` is the call of the tensor's method."""
    quote = "'" if layout.text.count("'") > layout.text.count('"') else '"'
    group, param = names.free("param_group"), names.free("param")
    return [
        f"for {group} in {optimizer}.param_groups:",
        f"{layout.unit}for {param} in {group}[{quote}params{quote}]:",
        f"{layout.unit * 2}if {param}.grad is not None:",
        f"{layout.unit * 3}{param}.grad.{change}",
    ]


def place_gated(layout: Layout, ending: Ending, averaging: Averaging, lines: list[str], draft: Draft) -> None:
    """Put lines that belong to the last microbatch of a window before its first clip or step."""
    first = ending.first(layout)
    gates = [p for p in layout.parents(first) if isinstance(p, ir.If) and layout.flat(p.test) == averaging.gate]
    if gates:
        draft.before(first, *lines)
    elif isinstance(first, ir.If) and layout.flat(first.test) == averaging.gate and not first.orelse:
        draft.before(first.body[0], *lines)
    else:
        draft.before(first, f"if {averaging.gate}:", *[f"{layout.unit}{line}" for line in lines])


def bound_name(layout: Layout, canonical: str) -> str:
    """What a library's module is called at the top of the file; "" if it is not imported there."""
    for statement in layout.module.body:
        if isinstance(statement, ir.Import):
            for name, target in statement.bindings:
                if target == canonical:
                    return name
    return ""
