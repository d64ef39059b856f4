"""Why the counts of two microbatches can differ, or cannot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from accumlint.apis.batch_norm import BUILDERS, LIBRARY
from accumlint.apis.language import Count
from accumlint.contract.verdict import Evidence
from accumlint.reading import ir
from accumlint.reading.contracts import Counted
from accumlint.reading.program import Module
from accumlint.reading.walk import dotted, walk
from accumlint.semantics.trace import Trace
from accumlint.semantics.values import Site

_PADDING = re.compile(r"loss_mask|label_mask|label_pad|pad_token|pad_sequence|pad_idx|ignore_index|IGNORE|mask_pad")
_PADDED_INPUTS = re.compile(r"attention_mask|collat|padding")
_ROWS_ONLY = re.compile(r"SequenceClassification|ImageClassification|AudioClassification|MultipleChoice")
_BLOCKS = re.compile(r"block_size|group_texts|memmap|packed|ConstantLength", re.I)
_NORM = re.compile(r"^(Sync)?BatchNorm(1d|2d|3d)?$")
_SIGNS = re.compile(
    "|".join([each.pattern for each in (_PADDING, _PADDED_INPUTS, _ROWS_ONLY, _NORM)] + [f"(?i:{_BLOCKS.pattern})"])
)
"""Any of these: most words of a file are none, and asked once."""
_PADS = re.compile(r"pad(?!ding)", re.I)
_FLAT = re.compile(r"\.(view|reshape|flatten|transpose|permute)\b|, 1:|\[\.\.\., 1:")


_POSITIONS = re.compile(r"\.(transpose|permute|swapaxes|mT)\b\(?[^()]*$")
"""Scores with their classes moved to the second place: there is a target a position."""
_WORDED = frozenset({ir.Name, ir.Attribute, ir.Constant, ir.Unary})
_TELLS = _WORDED | {ir.Call, ir.Compare, ir.Import, ir.If}
_SKIPPING = (Count.VALID_TARGETS, Count.WEIGHTED_TARGETS, None)


class Spread(Enum):
    """What is known of the counts of a window's microbatches."""

    TARGETS = "they differ: valid targets vary"
    BATCHES = "they differ where a batch is short"
    EQUAL = "they are equal"
    UNKNOWN = "nothing in sight says whether they differ"


@dataclass(frozen=True, slots=True)
class Judgement:
    spread: Spread
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What the text of a file says about its data, whichever loop uses it; first place of each."""

    padding: Evidence | None = None
    padded_inputs: Evidence | None = None  # speaks of the targets only where labels go to the model with the inputs
    rows_only: bool = False
    blocks: bool = False
    batch_norm: Evidence | None = None
    counted: Evidence | None = None  # targets that are not ignored are counted: why, if some can be
    fillers: frozenset[str] = frozenset()  # functions and classes that fill something with -100
    drops_last: bool = False  # some loader of the file drops a short last batch, or is told whether to


def read_file_facts(module: Module) -> FileFacts:
    """One pass over a module for signs of padded, masked or fixed-size data."""
    padding: Evidence | None = None
    inputs: Evidence | None = None
    rows = blocks = drops = False
    norm: Evidence | None = None
    frozen = False
    built: set[str] = set()  # names of the library whose models hold BatchNorm
    counted: Evidence | None = None
    compared: set[int] = set()  # `labels != -100` counts targets: it fills none, and a repair may have written it
    seen: set[str] = set()
    filling: list[ir.NodeId] = []  # the places of a -100 that is not only compared with
    for node in module.nodes:
        kind = type(node)
        if kind not in _TELLS or (kind is ir.Name and node.id in seen and node.node not in compared):  # type: ignore[union-attr]
            continue
        if isinstance(node, ir.Call):
            drops = drops or any(each.keyword == "drop_last" and not _is_false(each.value) for each in node.arguments)
            if norm is None and built:
                norm = _built_with_norm(node, built)
            continue
        word = _word(node)
        if word is None:
            if isinstance(node, ir.Compare) and node.operators == ("!=",):
                compared |= {each.node for each in node.comparators}
            elif isinstance(node, ir.Import):
                built |= {name for name, target in node.bindings if target.partition(".")[0] == LIBRARY}
            elif isinstance(node, ir.If):
                frozen = frozen or _freezes_norm(node)
            continue
        if word == "-100" and node.node not in compared:
            filling.append(node.node)
        if node.node in compared:
            if counted is None and (word == "-100" or _PADDING.search(word)):
                counted = Evidence("the code counts the targets that are not ignored", node.node)
            continue
        if word in seen:  # what it says was noted at its first place
            continue
        seen.add(word)
        if word == "-100" and padding is None:
            padding = Evidence("labels are filled with -100", node.node)
        if not _SIGNS.search(word):
            continue
        if padding is None and _PADDING.search(word):
            padding = Evidence(f"the data is padded or masked ({word[:40]})", node.node)
        if inputs is None and _PADDED_INPUTS.search(word):
            inputs = Evidence(f"the data is padded or masked ({word[:40]})", node.node)
        rows = rows or bool(_ROWS_ONLY.search(word))
        blocks = blocks or bool(_BLOCKS.search(word))
        if norm is None and _NORM.match(word):
            norm = Evidence(word, node.node)
    fillers = _fillers(module, filling) if filling and padding is not None else frozenset[str]()
    return FileFacts(padding, inputs, rows, blocks, None if frozen else norm, counted, fillers, drops)


def _fillers(module: Module, filling: list[ir.NodeId]) -> frozenset[str]:
    """The functions and classes of a file in whose bodies one of some places (ascending) lies."""
    scopes = [node for node in module.nodes if isinstance(node, (ir.Function, ir.Class))]
    return frozenset(scope.name for scope in scopes if any(node.node in filling for node in walk(scope.body)))


def _is_false(value: ir.Expression) -> bool:
    return isinstance(value, ir.Constant) and value.value is False


def _built_with_norm(call: ir.Call, names: set[str]) -> Evidence | None:
    """A model that a library builds with BatchNorm layers."""
    root, _, rest = (dotted(call.function) or "").partition(".")
    name = rest.rpartition(".")[2] or root
    return Evidence(f"the BatchNorm of {name}", call.node) if root in names and BUILDERS.fullmatch(name) else None


def _freezes_norm(node: ir.If) -> bool:
    """`if isinstance(layer, BatchNorm2d): layer.eval()`."""
    layers = [part for part in walk(node.test) if isinstance(part, (ir.Name, ir.Attribute))]
    if not any("BatchNorm" in (_word(layer) or "") for layer in layers):
        return False
    calls = [part for part in walk(node.body) if isinstance(part, ir.Call)]
    return any(isinstance(call.function, ir.Attribute) and call.function.name == "eval" for call in calls)


def _word(node: object) -> str | None:
    if type(node) not in _WORDED:
        return None
    if isinstance(node, ir.Name):
        return node.id
    if isinstance(node, ir.Attribute):
        return node.name
    if isinstance(node, ir.Constant) and isinstance(node.value, str) and len(node.value) < 60:
        return node.value
    if isinstance(node, ir.Unary) and node.operator == "-" and isinstance(node.operand, ir.Constant):
        return f"-{node.operand.value}"
    return None


def judge_counts(
    site: Site, trace: Trace, microbatches: tuple[int, ...], facts: FileFacts, *, counted: bool = False
) -> Judgement:
    """Whether the counts that a site's means were taken over can differ between the microbatches of a window.

    Class weights, masks and ignored targets are asked before the shapes of batches: `drop_last` says nothing of them.
    """
    told = _told_by_contract(site) or _told_by_loss(site, counted=counted)
    if told is not None:
        return told
    if counted and any(fact.name in ("labels", "labels argument") for fact in site.facts):
        return Judgement(
            Spread.TARGETS, (Evidence("each microbatch divides by the count of its own labels", site.node),)
        )
    batches = _by_batches(trace, microbatches, facts)
    padded = _padded_by_loader(site, trace, microbatches, facts)
    if padded is not None:
        return Judgement(Spread.TARGETS, (padded,))
    padding = facts.padding
    if padding is None and any(fact.name == "labels argument" for fact in site.facts):
        padding = facts.padded_inputs
    token_level = _is_token_level(site) and not (facts.rows_only and site.reduction == "unknown")
    if (
        token_level
        and padding is not None
        and batches.spread is not Spread.EQUAL
        and not _is_fixed(trace, microbatches)
    ):
        return Judgement(Spread.TARGETS, (padding,))
    return batches


def _padded_by_loader(site: Site, trace: Trace, microbatches: tuple[int, ...], facts: FileFacts) -> Evidence | None:
    """The collate function of the window's own loader: a library's that varies counts, or one named for padding."""
    of_model = site.reduction == "unknown" and site.hidden is None and "(**" in site.text and ".loss" in site.text
    if not (_is_token_level(site) or of_model) or (facts.rows_only and site.reduction == "unknown"):
        return None
    for key in _loaders(trace, microbatches):
        loader = trace.loaders.get(key)
        if loader is None:
            continue
        if loader.counts_vary:
            return Evidence(f"{loader.collate} fills labels with the index that is not counted", loader.node)
        if loader.collate in facts.fillers and (site.count is not None or of_model):
            return Evidence(f"{loader.collate} fills labels with -100", loader.node)
        shifted = site.count is not None or any(fact.name == "shifted" for fact in site.facts)
        if loader.counts_vary is None and shifted and _PADS.search(loader.collate):
            return Evidence(f"{loader.collate} pads the targets of a batch to their longest", loader.node)
    return None


def _loaders(trace: Trace, microbatches: tuple[int, ...]) -> list[str]:
    return sorted({kind[6:] for k in microbatches for kind in trace.lineages.get(k, ()) if kind.startswith("batch:")})


def _told_by_contract(site: Site) -> Judgement | None:
    """What a contract of the configuration says; a shipped one does not know the data."""
    if site.hidden is None or site.hidden.contract.shipped:
        return None
    contract = site.hidden.contract
    if contract.counted is Counted.CONSTANT:
        return Judgement(Spread.EQUAL)
    if contract.counted in (Counted.TARGETS, Counted.WEIGHTS):
        return Judgement(Spread.TARGETS, (Evidence(f"it is declared to divide by {contract.count}", site.hidden.call),))
    return None


def _told_by_loss(site: Site, *, counted: bool) -> Judgement | None:
    phrases = {
        "ignore_index": "targets equal to ignore_index are not counted",
        "class weights": "the loss divides by the class weights of the targets present",
        "selection": "the loss is taken over selected elements only",
        "mask": "the loss is masked",
        "filled": "targets are overwritten where they do not count",
        "mask argument": "the loss is given a mask",
    }
    if not counted:  # masked, but divided by all elements (Dice an image): the divisor does not vary
        del phrases["mask"]
    for name, phrase in phrases.items():
        for fact in sorted(site.facts, key=lambda fact: fact.node or 0):
            if fact.name == name and (name != "filled" or site.count in _SKIPPING):
                return Judgement(Spread.TARGETS, (Evidence(phrase, fact.node),))
    return None


def _is_token_level(site: Site) -> bool:
    """Whether a loss may skip targets by its default: index targets with several positions a row, or unseen."""
    if site.hidden is not None:
        return site.count in _SKIPPING
    if site.reduction == "unknown":
        labelled = any(fact.name in ("labels", "labels argument") for fact in site.facts)
        return labelled or "label" in site.text or ".loss" in site.text or "[0]" in site.text
    if site.count in (Count.VALID_TARGETS, Count.WEIGHTED_TARGETS):
        given = dict(site.arguments)
        return bool(_FLAT.search(given.get("target", "")) or _POSITIONS.search(given.get("input", "")))
    return False


def _is_fixed(trace: Trace, microbatches: tuple[int, ...]) -> bool:
    kinds = {kind for k in microbatches for kind in trace.lineages.get(k, ())}
    return bool(kinds) and kinds <= {"random", "iteration"}


def _by_batches(trace: Trace, microbatches: tuple[int, ...], facts: FileFacts) -> Judgement:
    loaders = _loaders(trace, microbatches)
    if loaders:
        known = [trace.loaders.get(key) for key in loaders]
        dropping = [loader for loader in known if loader is not None]
        if dropping and all(loader.drops_last for loader in dropping) and len(dropping) == len(known):
            cut = any("part" in trace.lineages.get(k, ()) for k in microbatches)  # into equal parts, or not
            return Judgement(Spread.UNKNOWN if cut else Spread.EQUAL)
        if facts.drops_last and all(loader.drops_last is None for loader in dropping):
            return Judgement(Spread.UNKNOWN)  # the loader was handed in, or told to drop by what is not known
        node = dropping[0].node if dropping else None
        return Judgement(Spread.BATCHES, (Evidence("nothing shows that the loader drops a short last batch", node),))
    if _is_fixed(trace, microbatches):
        return Judgement(Spread.EQUAL)
    return Judgement(Spread.UNKNOWN)
