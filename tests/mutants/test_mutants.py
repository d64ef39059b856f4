"""Every right loop equals the full batch, every mutant does not, and no mutant is ever called safe."""

from __future__ import annotations

import ast
import re

import pytest

from accumlint.repair.certificate import Applicability, Check
from accumlint.repair.confirm import certify_derived
from tests.mutants.bases import BASES
from tests.mutants.catalogue import NOT_SAFE_YET, certificate, mutants, source
from tests.mutants.kinds import KINDS, read, write

pytest.importorskip("torch")

SINGLE = [base.name for base in BASES if base.features.get("ranks", 1) == 1]


def test_the_catalogue_is_large_enough_and_its_texts_are_distinct() -> None:
    everything = mutants()
    assert len(BASES) >= 8
    assert len({mutant.kind for mutant in everything}) >= 30
    rights = {source(base) for base in BASES}
    for mutant in everything:
        ast.parse(mutant.source)
        assert mutant.source not in rights, (mutant.base, mutant.kind)
    assert len({(m.base, m.kind) for m in everything}) == len(everything)


@pytest.mark.parametrize("name", SINGLE)
def test_right_loops_equal_the_full_batch_and_mutants_do_not(name: str) -> None:
    from tests.mutants.execute import RAISES, run_single

    (base,) = (base for base in BASES if base.name == name)
    assert run_single([base]) == [[]]
    several = [mutant for mutant in mutants() if mutant.base == name]
    for mutant, found in zip(several, run_single(several), strict=True):
        assert found, (name, mutant.kind, mutant.source)
        assert ("Error" in found[0]) == ((name, mutant.kind) in RAISES), (name, mutant.kind, found[0])


def test_distributed_loops_equal_the_full_batch_of_all_ranks_and_mutants_do_not() -> None:
    from tests.mutants.execute import RAISES, run_distributed
    from tests.mutants.ranks import available

    if not available():
        pytest.skip("torch has no gloo here")
    bases, found = run_distributed()
    assert not any(bases.values()), bases
    assert all(found.values()), [key for key, answer in found.items() if not answer]
    raising = {key: answer[0] for key, answer in found.items() if "Error" in answer[0]}
    assert raising.keys() <= RAISES.keys(), raising


def test_a_rank_that_dies_is_an_error_and_never_an_answer() -> None:
    import torch

    from tests.mutants.ranks import available, differences_on_ranks

    if not available():
        pytest.skip("torch has no gloo here")
    (base,) = (base for base in BASES if base.name == "pre-count under DDP")
    dies = "import os\n\ndef train(net, loader, optimizer, k, max_norm):\n    os._exit(3)\n"
    with pytest.raises(torch.multiprocessing.ProcessExitedException):
        differences_on_ranks([(dies, "train", base.features)])


@pytest.mark.parametrize("name", [base.name for base in BASES])
def test_no_mutant_is_called_safe_and_every_right_loop_is(name: str) -> None:
    (base,) = (base for base in BASES if base.name == name)
    found = certificate(name, source(base))
    if name in NOT_SAFE_YET:
        assert found.applicability is Applicability.UNSAFE
    else:
        assert found.applicability is Applicability.SAFE, found
        assert {Check.PROVED, Check.EXECUTED, Check.LEAF_CHECKED} <= found.discharged
        assert not found.missing
    for mutant in mutants():
        if mutant.base == name:
            judged = certificate(name, mutant.source)
            assert judged.applicability is not Applicability.SAFE, (mutant.kind, judged, mutant.source)
            assert judged.missing or judged.disagreement, mutant.kind


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_a_flush_without_a_test_is_not_safe_where_the_code_has_its_own_number_of_steps(steps: int) -> None:
    """Data that end with a window leave nothing to step for: a run over such data belongs to every proof."""
    (base,) = (base for base in BASES if base.name == "deferred, flushed after the loop")
    lines = read(base.text)

    def literal(text: str) -> str:
        return re.sub(r"\bk\b(?!,)", str(steps), text)

    before = literal(write(KINDS["equal_weights"](list(lines), base)))
    right, mutant = literal(write(lines)), literal(write(KINDS["flush_unguarded"](list(lines), base)))
    assert certify_derived(before, right, "train.py").applicability is Applicability.SAFE
    assert certify_derived(before, mutant, "train.py").applicability is not Applicability.SAFE
