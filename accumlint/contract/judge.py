"""From the traces of a region to what is broken in it, or why it is not judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from accumlint.apis.registry import load_for
from accumlint.contract.clauses import CHECKS, Case
from accumlint.contract.evidence import FileFacts, read_file_facts
from accumlint.contract.logged import check_logged
from accumlint.contract.model import check_model
from accumlint.contract.verdict import Abstention, Clause, Violation
from accumlint.reading.program import Module
from accumlint.reading.project import FOREIGN, project_of
from accumlint.reading.recursion import rare_collection
from accumlint.semantics.run import Result, analyse
from accumlint.semantics.trace import BACKWARD, STEP, Trace

_EXCLUDES = {Clause.NO_DIVISION: (Clause.TARGET_WEIGHT, Clause.BATCH_WEIGHT, Clause.UNPROVEN_WEIGHT)}


@dataclass(frozen=True, slots=True)
class Judged:
    """A region with what was found in it, or why it was not judged."""

    result: Result
    violations: tuple[Violation, ...]
    abstention: Abstention | None = None


@rare_collection()
def judge_regions(module: Module, *, thorough: bool = False) -> list[Judged]:
    """Run and judge every region of a module, following names into the other files of its project."""
    facts = read_file_facts(module)
    judged: list[Judged] = []
    project = project_of(module.filename)
    for result in analyse(module, load_for(project), project, thorough=thorough):
        found, abstained = judge(result, facts)
        judged.append(Judged(result, tuple(found), abstained))
    return judged


def judge(result: Result, facts: FileFacts) -> tuple[list[Violation], Abstention | None]:
    """All violations of a region, without repetitions, and an abstention if it was not analysed."""
    if result.stopped:
        return [], Abstention(result.stopped, result.region.node)
    trace = result.default.first
    if trace.exempt:
        return [], None
    if not any(event.kind == BACKWARD for event in trace.events):
        return [], Abstention("no backward was reached", result.region.node)
    if not any(event.kind == STEP for event in trace.events):
        return [], _without_step(result)
    found = list(_of_path(result.default, facts))
    for traces in result.flipped:
        if traces.first.stopped or traces.first.exempt:
            continue
        others = [v for v in _of_path(traces, facts) if _may_flip(v, trace)]
        if not any(t.stopped or t.exempt for t in traces.known):
            found += others
    return _unique([v for each in found if (v := bring_home(each, trace, result)) is not None]), None


def _without_step(result: Result) -> Abstention:
    """Why nothing stepped: the last condition before a step that the code does not decide, if there is one."""
    trace, reason = result.default.first, "no step of an optimizer was seen"
    guard = trace.untaken.get(STEP)
    if guard is None or guard >= FOREIGN:
        alone = trace.guessed or not any(event.loops for event in trace.events)
        helps = result.region.function is not None and alone
        return Abstention(f"{reason}: a backward for a caller elsewhere" if helps else reason, result.region.node)
    return Abstention(f"{reason}: nothing decides the `if`", guard)


def bring_home(violation: Violation, trace: Trace, result: Result) -> Violation | None:
    """Report in the checked file what happens in another: at the call that led there, if the loop is this file's."""

    def home(node: int | None) -> int | None:
        if node is None or node < FOREIGN:
            return node
        return next((t.anchors[node] for t in _traces(result) if node in t.anchors), None)

    node = home(violation.node)
    if violation.node >= FOREIGN and not any(loop < FOREIGN for loop in trace.loops):
        node = _own_loss(violation, trace)
    if node is None:
        return None
    evidence = tuple(
        replace(e, node=e.node if e.node is None or e.node < FOREIGN else None) for e in violation.evidence
    )
    return replace(violation, node=node, other=home(violation.other), evidence=evidence)


def _own_loss(violation: Violation, trace: Trace) -> int | None:
    """Where the checked file computes the loss that a base class of another file weighs wrongly, in its own loop."""
    if violation.clause not in (Clause.TARGET_WEIGHT, Clause.BATCH_WEIGHT):
        return None
    forms = [e.form for e in trace.events if e.kind == BACKWARD and e.node == violation.node and e.form is not None]
    nodes = [site.node for form in forms for site, _ in form.terms]
    return nodes[0] if nodes and all(0 <= node < FOREIGN for node in nodes) else None


def _traces(result: Result) -> Iterator[Trace]:
    yield from result.default
    for traces in result.flipped:
        yield from traces


def _may_flip(violation: Violation, default: Trace) -> bool:
    """On a flipped path only what does not rest on the flip: the other branch has its own backward."""
    return violation.node not in default.covered and violation.clause in (
        Clause.TARGET_WEIGHT,
        Clause.BATCH_WEIGHT,
        Clause.PARTIAL_DIVISOR,
        Clause.DIVIDED_TWICE,
        Clause.BATCH_COUPLED,
    )


def _of_path(traces: Sequence[Trace], facts: FileFacts) -> Iterator[Violation]:
    for store in dict.fromkeys(event.store for event in traces[0].events if event.kind == STEP):
        case = Case(traces, store, facts)
        found = [violation for check in CHECKS for violation in check(case)]
        yield from found
        yield from check_model(case, found)
        yield from check_logged(case)


def _unique(found: list[Violation]) -> list[Violation]:
    seen: dict[tuple[Clause, int], Violation] = {}
    for violation in found:
        seen.setdefault((violation.clause, violation.node), violation)
    for clause, excluded in _EXCLUDES.items():
        nodes = {node for kind, node in seen if kind is clause}
        seen = {key: v for key, v in seen.items() if not (key[0] in excluded and key[1] in nodes)}
    return list(seen.values())
