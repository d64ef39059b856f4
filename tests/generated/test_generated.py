"""The generator's promises: the same seed gives the same text, and execution finds exactly the intended faults."""

from __future__ import annotations

import ast
import collections

import pytest

from tests.generated.generate import Program, generate

torch = pytest.importorskip("torch")

SEEDS = 300


def test_same_seed_same_text() -> None:
    for seed in range(40):
        assert generate(seed) == generate(seed)


def test_programs_parse_and_marks_stand_on_their_constructs() -> None:
    words = {
        "backward": "backward(",
        "clip": "clip_grad_",
        "step": "step(",
        "sched": "step()",
        "boundary": "if ",
        "update": "update()",
        "clear": "zero_grad(",
        "unscale": "unscale_(",
    }
    for seed in range(1000):
        program = generate(seed)
        ast.parse(program.source)
        lines = program.source.splitlines()
        for mark, numbers in program.features["marks"].items():
            for number in numbers:
                assert words.get(mark, "") in lines[number - 1], (seed, mark)


def test_every_code_and_every_kind_of_loop_occurs() -> None:
    codes, seen = collections.Counter(), collections.defaultdict(set)
    for seed in range(1000):
        program = generate(seed)
        codes.update({code for code, _ in program.intended} or {"none"})
        for key in (
            "loop",
            "loss",
            "division",
            "boundary",
            "tail",
            "data",
            "clear",
            "clear_call",
            "scaler",
            "shape",
            "k_from",
        ):
            seen[key].add(program.features[key])
    wanted = {
        "ACC101",
        "ACC102",
        "ACC103",
        "ACC104",
        "ACC107",
        "ACC201",
        "ACC202",
        "ACC301",
        "ACC302",
        "ACC303",
        "ACC304",
        "ACC305",
        "ACC306",
        "ACC307",
        "none",
    }
    assert set(codes) == wanted
    assert min(codes.values()) >= 5, codes
    assert {key: len(values) for key, values in seen.items()} == {
        "loop": 7,
        "loss": 14,
        "division": 15,
        "boundary": 8,
        "tail": 5,
        "data": 6,
        "clear": 4,
        "clear_call": 4,
        "scaler": 3,
        "shape": 4,
        "k_from": 4,
    }


@pytest.mark.parametrize("start", range(0, SEEDS, 50))
@pytest.mark.filterwarnings("ignore:Detected call of")
def test_execution_finds_the_intended_faults_and_no_other(start: int) -> None:
    from tests.generated.judge import equals_full_batch, truth

    for seed in range(start, start + 50):
        program = generate(seed)
        assert truth(program) == program.intended, (seed, program.source)
        assert equals_full_batch(program.source, program.entry, program.features) == (not program.intended), (
            seed,
            program.source,
        )


def test_shrinking_keeps_the_failure_and_drops_the_rest() -> None:
    from tests.generated.shrink import shrink, weight

    def clips_too_often(program: Program) -> bool:
        return any(code == "ACC201" for code, _ in program.intended)

    large = max((p for p in map(generate, range(200)) if clips_too_often(p)), key=weight)
    small = shrink(large, clips_too_often)
    assert {code for code, _ in small.intended} == {"ACC201"}
    assert weight(small) < weight(large)
    assert len(small.source.splitlines()) <= 20


def test_the_judge_sees_a_difference_of_one_part_in_a_thousand() -> None:
    """The reference is not blind: spoiling a right program's divisor slightly is a difference."""
    from tests.generated.judge import equals_full_batch

    spoiled = 0
    for seed in range(120):
        program = generate(seed)
        if (
            program.intended
            or program.features["division"] not in ("deferred", "precount")
            or program.features["clip"] == "value"
        ):
            continue
        text = program.source.replace(".backward()", ".backward()\n").replace(
            "    loss.backward()\n", "    (loss * 1.001).backward()\n"
        )
        if text.count("1.001"):
            assert not equals_full_batch(text, program.entry, program.features), seed
            spoiled += 1
    assert spoiled >= 3
