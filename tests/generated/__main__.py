"""python -m tests.generated --seeds 0:5000 [--command accumlint] [--repairs [--strategy S]] [--shrink] [--show N]

Prints where the analyser's findings differ from the executed truth, and a table per code. Exit status 1 if any do.
`--print SEED` shows one program with its truth.
"""

from __future__ import annotations

import argparse
import sys
import warnings

from tests.generated.compare import Answer, Tally, ask_command, ask_in_process, check_repairs
from tests.generated.generate import Program, generate
from tests.generated.judge import truth


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.generated", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0:300", help="FROM:TO")
    parser.add_argument("--command", help="ask this command line instead of the engine in process")
    parser.add_argument("--repairs", action="store_true", help="also execute every repair against the full batch")
    parser.add_argument("--confirm", action="store_true", help="with --repairs: let the tool confirm by execution")
    parser.add_argument("--strategy", default="auto", help="with --repairs: auto, deferred or precount")
    parser.add_argument("--shrink", action="store_true", help="shrink each failing program that is shown")
    parser.add_argument("--show", type=int, default=5, help="how many disagreements to print in full")
    parser.add_argument("--only", default="", help="show only disagreements about this code")
    parser.add_argument("--trust", action="store_true", help="take the generator's intention for the truth (fast)")
    parser.add_argument(
        "--disputed", action="store_true", help="include programs whose truth rests on a reading of rules.md"
    )
    parser.add_argument("--print", type=int, dest="single", metavar="SEED")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", message="Detected call of")

    if options.single is not None:
        show(options.single, generate(options.single), truth(generate(options.single)), None)
        return 0
    first, last = map(int, options.seeds.split(":"))
    programs = [(seed, generate(seed)) for seed in range(first, last)]
    if not options.disputed:
        programs = [(seed, program) for seed, program in programs if not program.disputed]
    tally, shown, disagreements = Tally(), 0, 0
    by_command = ask_command(programs, options.command) if options.command else None
    for seed, program in programs:
        answer = (
            next(by_command)[1]
            if by_command
            else ask_in_process(program, options.repairs, options.confirm, options.strategy)
        )
        wanted = program.intended if options.trust else truth(program)
        exact = tally.add(wanted, answer)
        complaints = check_repairs(program, answer, tally) if options.repairs and not by_command else []
        disagreements += not exact or bool(complaints)
        off = {code for code, _ in wanted ^ answer.found}
        if (not exact or complaints) and shown < options.show and (not options.only or options.only in off):
            shown += 1
            if options.shrink and not exact and not by_command:
                program = shrunk(program, off)
                answer, wanted = ask_in_process(program), program.intended
            show(seed, program, wanted, answer)
            print("\n".join(complaints))
    print(tally.table())
    return 1 if disagreements else 0


def shrunk(program: Program, off: set[str]) -> Program:
    """A small program on which the analyser is wrong about the same codes."""
    from tests.generated.shrink import shrink

    def same(candidate: Program) -> bool:
        return off <= {code for code, _ in candidate.intended ^ ask_in_process(candidate).found}

    return shrink(program, same) if same(program) else program


def show(seed: int, program: Program, wanted: set[tuple[str, int]], answer: Answer | None) -> None:
    print(f"--- seed {seed}" + (f"  disputed: {program.disputed}" if program.disputed else ""))
    found = answer.found if answer else wanted
    for number, line in enumerate(program.source.splitlines(), 1):
        notes = [f"missed {code}" for code, at in sorted(wanted - found) if at == number]
        notes += [f"FALSE {code}" for code, at in sorted(found - wanted) if at == number]
        notes += [code for code, at in sorted(wanted & found) if at == number]
        print(f"{number:3} {line}" + (f"    # <-- {', '.join(notes)}" if notes else ""))
    for kind, texts in (("not reached", answer.not_reached), ("problem", answer.problems)) if answer else ():
        for text in texts:
            print(f"    {kind}: {text}")


if __name__ == "__main__":
    sys.exit(main())
