"""Every format against the corpus: what is read, that reading may stop anywhere, and that nothing else is taken for
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.core.logs import LogParser
from recovery.core.logs.formats import FORMATS
from recovery.core.phases import next_phase
from recovery.core.types import LogLine, Phase, Signal, SignalKind
from tests.core.logs.corpus import CASES, expected_of, lines_of, written
from tests.core.logs.lines import numbered

ALL_LINES = sorted({line.text for case in CASES for line in lines_of(case)})
NAMES = {each.name for each in FORMATS}


def read(lines: Sequence[LogLine], *, cut: int = 0) -> list[Signal]:
    """Feed all lines; after `cut` of them go on in a new parser, with the memory stored as JSON between."""
    first = LogParser()
    signals = [signal for line in lines[:cut] for signal in first.feed(line)]
    second = LogParser(memory=json.loads(json.dumps(first.memory)))
    return signals + [signal for line in lines[cut:] for signal in second.feed(line)]


@pytest.mark.parametrize("case", CASES)
def test_a_log_of_the_corpus_gives_the_signals_that_stand_beside_it(case: str) -> None:
    assert written(read(lines_of(case))) == expected_of(case)


@pytest.mark.parametrize("case", CASES)
def test_reading_may_stop_after_any_line_and_go_on_in_another_process(case: str) -> None:
    lines = lines_of(case)
    whole = read(lines)
    assert all(read(lines, cut=cut) == whole for cut in range(len(lines) + 1))


@pytest.mark.parametrize("case", [case for case in CASES if any(" eval_" in line for line in expected_of(case))])
def test_an_evaluation_is_a_phase_of_its_own_and_training_goes_on_after_it(case: str) -> None:
    phase, seen = Phase.STARTING, []
    for signal in read(lines_of(case)):
        before, phase = phase, next_phase(phase, signal)
        seen.append((signal.kind, before, phase))
    for kind, before, after in seen:
        if kind is SignalKind.PROGRESS:
            assert after is Phase.TRAINING
        if kind is SignalKind.EVAL_STARTED and before is Phase.TRAINING:
            assert after is Phase.EVALUATING
        if kind is SignalKind.EVAL_FINISHED:
            assert after is not Phase.EVALUATING
    assert phase is not Phase.EVALUATING


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith(("none/", "several/"))])
def test_every_format_is_recognised_by_itself(case: str) -> None:
    parser = LogParser()
    progress = [s for line in lines_of(case) for s in parser.feed(line) if s.kind is SignalKind.PROGRESS]
    assert parser.format == (case.partition("/")[0] if progress else "")


def test_every_format_has_logs_in_the_corpus() -> None:
    assert NAMES | {"none", "several"} == {case.partition("/")[0] for case in CASES}


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_every_rule_carries_the_name_of_its_format(each: object) -> None:
    name = getattr(each, "name", "")
    rules = {line.split()[2] for case in CASES if case.startswith(f"{name}/") for line in expected_of(case)}
    assert any(rule.startswith(f"{name}.") for rule in rules)


def test_a_load_and_a_save_of_every_format_that_prints_them_are_in_the_corpus() -> None:
    kinds = {line.split()[1] for case in CASES for line in expected_of(case)}
    assert kinds == {kind.value for kind in SignalKind if kind is not SignalKind.FAILURE}


@settings(max_examples=60)
@given(st.lists(st.sampled_from(ALL_LINES), max_size=40), st.integers(0, 40))
def test_no_mixture_of_formats_depends_on_where_reading_stopped(texts: list[str], cut: int) -> None:
    lines = numbered(texts)
    assert read(lines, cut=cut) == read(lines)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(ALL_LINES), max_size=12), st.randoms(use_true_random=False))
def test_no_torn_line_is_more_than_the_whole_one(texts: list[str], random: object) -> None:
    """Lines that are cut off anywhere never raise, and give no step that isn't written in them."""
    cut = [text[: random.randrange(len(text) + 1)] for text in texts]  # type: ignore[attr-defined]
    for signal in read(numbered(cut)):
        assert signal.step is None or signal.rule in COMPUTED or str(signal.step) in _numbers("\n".join(cut))


COMPUTED = {
    "composer.report",
    "lightning.bar",
    "torchtitan.starts_at",
}  # from an epoch, or one less than what is written


def _numbers(text: str) -> set[str]:
    return {str(int(digits)) for digits in re.findall(r"[0-9]{1,12}", text.replace(",", ""))}


def test_whatever_is_printed_again_and_again_the_memory_stays_small() -> None:
    parser = LogParser()
    for turn in range(4):
        for number, text in enumerate(ALL_LINES):
            parser.feed(LogLine(text=text + "/" + "x" * turn, file=f"/{turn}", number=number, offset=0))
            parser.feed(LogLine(text=text.replace("ckpt", "c" * 3000), file="/f", number=number, offset=0))
    assert len(json.dumps(parser.memory)) < 20_000


@pytest.mark.parametrize("length", [5_000, 60_000])
@pytest.mark.parametrize("text", ALL_LINES[::7])
def test_a_line_of_any_length_is_read(text: str, length: int) -> None:
    lines = numbered([text + "x" * length, text[:20] * (length // 20), "\r" * length + text])
    assert len(read(lines)) < 20


def test_losses_that_come_from_another_file_than_the_bar_are_not_piled_on_one_step() -> None:
    info, bar = "  Total optimization steps = 1,000", " 5%|█| 50/1000 [00:01<00:10,  3.80s/it]"
    losses = [f"{{'loss': {n}, 'epoch': 0.1}}" for n in (5.8, 5.7, 5.6)]
    signals = read(numbered([info, bar, *losses]))
    assert [(s.step, s.loss) for s in signals] == [(50, None), (50, 5.8)]
