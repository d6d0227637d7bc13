"""A slice of the simulated fleet: what `python -m benchmarks detection` plays in full."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import median
from xml.etree import ElementTree

import pytest

from benchmarks.simulated import curves, score, tails
from benchmarks.simulated.bounds import at_most, share_at_least
from benchmarks.simulated.life import Life, live
from benchmarks.simulated.play import EveryLook, HangsOnly, play
from benchmarks.simulated.profiles import Profile, draw
from benchmarks.simulated.score import DEFAULTS, Play, figures, simulate
from benchmarks.simulated.seen import USUAL_W, Seen, Wait, is_told, readings
from recovery.core.types import Exclude, Restart

SEED, JOBS = 1, 14
MIXED = (67, 175, 226, 320, 356, 1004)  # short jobs: without a loss, slow, crashed, hung, slow, without saves


def profile(number: int) -> Profile:
    return draw(Random(f"{SEED}-{number}"))


def drawn(number: int) -> Life:
    random = Random(f"{SEED}-{number}")
    return live(draw(random), random)


def test_in_a_slice_of_the_fleet_no_crash_is_missed_every_hang_is_found_in_time_and_none_in_vain() -> None:
    (tally,) = simulate(Play(seed=SEED), range(JOBS))
    told = figures(tally)
    assert told["jobs"] == JOBS
    assert told["missed_crashes"] == 0
    assert told["hangs"] > 0
    assert told["hangs_found_within_3_due"] == 1
    assert told["false_alarms_per_1000_job_days"] == 0, tally.examples
    assert told["by_fault"]["hang"]["found"] == 1


def test_impatience_costs_false_alarms_and_patience_time() -> None:
    """The slice is hard enough to tell thresholds apart."""
    every = [DEFAULTS, replace(DEFAULTS, hang_floor_s=60, hang_longest=1.0)]
    patient, hasty = simulate(Play(seed=SEED, player=HangsOnly), range(30), every)
    assert patient.false["hang"] == 0
    assert hasty.false["hang"] > 0
    assert min(hasty.delays["hang"]) < min(patient.delays["hang"])


def test_a_hang_that_something_else_tells_of_is_found_sooner() -> None:
    (tally,) = simulate(Play(seed=SEED, only=("hang",), player=HangsOnly), range(100))
    told, alone = (tally.delays[kind] for kind in (score.WITNESSED, score.ALONE))
    assert median(told) < DEFAULTS.hang_witnessed_s + 60 < median(alone) < DEFAULTS.hang_floor_s + 120
    assert set(figures(tally)["hangs_in_training"]) == {score.WITNESSED, score.ALONE}


def test_what_was_due_is_measured_by_the_same_ruler_whatever_floor_is_tried() -> None:
    life = next(life for n in range(50) if (life := drawn(n)).truth.fault == "hang")
    assert score.due_of(life, DEFAULTS) == score.due_of(life, replace(DEFAULTS, hang_floor_s=7200.0))


def test_gpus_that_wait_for_a_hung_rank_are_busy_and_draw_little() -> None:
    wait = Wait(1200.0, 3000.0, "hang", share=0.3, utilisation=100.0)
    told = Seen(measured="power", waits=(wait,), lines=(), faults=(900.0,))
    assert readings(told, 300.0) == {}  # not measured for long enough yet
    training, waiting = readings(told, 1100.0), readings(told, 1900.0)
    assert (training["power_w"], training["most_power_w"]) == (USUAL_W, USUAL_W)
    assert (waiting["power_w"], waiting["most_power_w"]) == (pytest.approx(0.3 * USUAL_W), pytest.approx(0.3 * USUAL_W))
    assert waiting["utilisation"] == 100.0
    assert readings(told, 1500.0)["most_power_w"] == USUAL_W  # ten minutes hold the time before, too
    assert readings(replace(told, measured="utilisation"), 1900.0)["power_w"] is None
    assert readings(replace(told, measured=""), 1900.0) == {}
    assert is_told(told, 1200.0, 2700.0)
    assert not is_told(replace(told, measured=""), 1200.0, 2700.0)  # the fault came before


def test_looking_when_something_could_be_found_finds_what_looking_every_ten_seconds_does() -> None:
    """The fleet is played by what recovery.core.quiet says of judgements; the plain way makes all of them."""
    lives = {n: drawn(n) for n in MIXED}
    plain = {n: play(life, DEFAULTS, EveryLook) for n, life in lives.items()}
    assert {n: play(life, DEFAULTS) for n, life in lives.items()} == plain
    assert {found.kind for each in plain.values() for found in each} >= {"crash", "hang", "slowdown", "numerics"}


def test_a_job_that_is_never_silent_needs_no_play_for_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [DEFAULTS, replace(DEFAULTS, hang_floor_s=600)]
    how = Play(seed=SEED, only=("", "hang"), player=HangsOnly)
    quick = simulate(how, range(20), every)
    monkeypatch.setattr(score, "_is_never_silent", lambda life, every: False)
    assert simulate(how, range(20), every) == quick


def test_a_count_comes_with_how_sure_it_is() -> None:
    assert at_most(0, 1) == pytest.approx(3.689, abs=0.001)  # the tables of Poisson's distribution
    assert at_most(10, 2) == pytest.approx(18.390 / 2, abs=0.001)
    assert share_at_least(82, 82) == pytest.approx(0.9560, abs=0.0001)
    assert share_at_least(5, 10) == pytest.approx(0.1871, abs=0.0001)
    assert share_at_least(0, 5) == 0


def test_a_job_is_the_same_whenever_it_is_played() -> None:
    one, again = (live(profile(3), Random(7)) for _ in range(2))
    assert one == again
    assert play(one, DEFAULTS, HangsOnly) == play(again, DEFAULTS, HangsOnly)


def test_no_end_of_a_log_is_restarted_or_excluded_wrongly() -> None:
    told = tails.score(SEED, 80)
    assert (told["wrongful_restarts"], told["wrongful_exclusions"]) == ([], [])
    assert told["restart"]["yes"] > 0


def test_a_verdict_that_is_wrong_would_be_named() -> None:
    """The judge is judged: what calls for a restart, where none may be, is counted."""
    lost = next(end for n in range(50) if (end := tails.ENDS[5](Random(n))).event)
    found = tails.diagnosed(lost, Random(1))
    assert (found.restart, found.exclude, found.nodes) == (Restart.YES, Exclude.NODES, (lost.bad,))


def test_the_picture_of_the_curves_is_whole_and_marks_what_was_chosen() -> None:
    points = [
        curves.Point(label="5", delay_s=300, false=12.0, missed=0, chosen=False),
        curves.Point(label="20", delay_s=1200, false=0.5, missed=0, chosen=True),
    ]
    text = curves.picture(["Hangs"], {"the floor, in minutes": points})
    drawn = ElementTree.fromstring(text)  # noqa: S314 - our own
    circles = [each for each in drawn.iter() if each.tag.endswith("circle")]
    assert [circle.get("r") for circle in circles] == ["3", "6"]
