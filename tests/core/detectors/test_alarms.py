"""Alarms tell people something, and nothing is done on them: when each is raised, and when it is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.core.detectors.straggler import shared_nodes
from recovery.core.detectors.surroundings import End, Waiting
from recovery.core.types import JobState, Sample, SignalKind
from recovery.core.verify.restore import Source, Told
from tests.core.attempts import at, attempt, mark, read, samples
from tests.core.detectors.alarm_facts import LIMITS, found, kinds, losing, training

STEADY = [2.0] * 60


# numerics


def test_a_loss_that_is_no_longer_a_number_is_told_with_the_step_since_when() -> None:
    (alarm,) = found(training(losing(*STEADY, *[None] * LIMITS.loss_gone)))
    assert alarm.kind == "numerics"
    assert "since step 610, in each of the last 10 reports" in alarm.reason
    assert alarm.since == at(61 * 40)


def test_a_loss_that_is_gone_early_is_told_when_that_lasts() -> None:
    few = STEADY[: LIMITS.loss_least]
    assert kinds(training(losing(*few, *[None] * 39))) == []
    assert kinds(training(losing(*few, *[None] * 40))) == ["numerics"]
    assert kinds(training(losing(*few[1:], *[None] * 90))) == []


def test_single_reports_without_a_number_are_a_loss_scale_that_is_being_found() -> None:
    assert kinds(training(losing(*STEADY, *[None] * (LIMITS.loss_gone - 1)))) == []
    assert kinds(training(losing(*STEADY, *[None, 2.0] * 10))) == []


def test_a_trainer_that_never_prints_its_loss_has_lost_none() -> None:
    assert kinds(training(losing(*[None] * 80))) == []


def test_a_spike_that_decays_is_no_divergence_and_a_level_that_stays_is() -> None:
    assert kinds(training(losing(*STEADY, *[6.0] * (LIMITS.loss_window - 1), 2.0))) == []
    (alarm,) = found(training(losing(*STEADY, *[6.0] * LIMITS.loss_window)))
    assert alarm.reason.startswith("The loss stands at 6 since step 610, 3.0 times the 2 that it had come down to")


def test_a_noisy_loss_is_no_divergence() -> None:
    noisy = [1.0, 3.0] * 40
    assert kinds(training(losing(*noisy, *[3.0] * LIMITS.loss_window))) == []


def test_what_the_trainer_says_of_its_numbers_is_an_alarm_until_good_reports_follow() -> None:
    lines = ["[rank0]: RuntimeError: Minimum loss scale reached (0.0001). Your loss is probably exploding."]
    said = tuple(s._replace(at=at(2400)) for s in read(lines))
    assert said
    facts = training(losing(*STEADY), signals=said)
    (alarm,) = found(facts)
    assert alarm.evidence[0].text.endswith("probably exploding.")
    later = losing(*STEADY, *[2.0] * LIMITS.loss_gone)
    assert kinds(training(later, signals=said)) == []


# not starting


def pending(reason: str = "Resources", waited_s: float = 3600) -> object:
    return attempt(state=JobState.PENDING, state_reason=reason, started_at=None, now_s=waited_s)


def test_our_own_exclusion_that_leaves_too_few_nodes_is_told() -> None:
    waiting = Waiting(since=at(0), needs=4, eligible=3, ours=("gpu-04",))
    (alarm,) = found(pending(), waiting=waiting)  # type: ignore[arg-type]
    assert alarm.reason == "It needs 4 nodes and can start on 3 only: gpu-04 is excluded by our doing."


@pytest.mark.parametrize(
    "waiting",
    [
        Waiting(since=at(0), needs=4, eligible=4, ours=("gpu-04",)),
        Waiting(since=at(0), needs=4, eligible=None, ours=("gpu-04",)),
        Waiting(since=at(0), needs=4, eligible=2),
    ],
)
def test_a_job_that_waits_its_turn_is_no_alarm(waiting: Waiting) -> None:
    assert kinds(pending(), waiting=waiting) == []  # type: ignore[arg-type]


def test_what_slurm_will_never_start_is_told_after_a_while() -> None:
    waiting = Waiting(since=at(0), needs=1, eligible=None)
    assert kinds(pending("BadConstraints", 60), waiting=waiting) == []  # type: ignore[arg-type]
    assert kinds(pending("BadConstraints"), waiting=waiting) == ["not_starting"]  # type: ignore[arg-type]
    assert kinds(pending("Priority"), waiting=waiting) == []  # type: ignore[arg-type]


def test_ranks_that_do_not_find_each_other_are_told_while_no_step_comes() -> None:
    line = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError: Timed out waiting for 2 of 4 nodes"
    said = tuple(s._replace(at=at(100)) for s in read([line]))
    assert said
    assert kinds(attempt(signals=said, now_s=300)) == []
    assert kinds(attempt(signals=said, now_s=500)) == ["not_starting"]
    assert kinds(training(samples(5), signals=said)) == []


# unsaved


def test_a_checkpoint_that_is_long_overdue_is_told_with_what_would_be_lost() -> None:
    facts = training(samples(100))  # until 4000 s, step 1000
    late = {"saved_at": at(400), "saved_step": 100, "save_every_s": 1000.0, "gpus": 8}
    (alarm,) = found(facts, **late)
    assert alarm.reason == (
        "No checkpoint was complete for 1 h of training; they usually come every 16 m 40 s. If it failed now, 900 "
        "steps and 8.0 GPU-hours of work would be lost."
    )
    assert kinds(facts, **{**late, "saved_at": at(2500)}) == []


def test_a_saves_rhythm_holds_from_when_it_trains() -> None:
    """The run's last checkpoint may be days old when its next attempt starts."""
    old = {"saved_at": at(-90_000), "saved_step": 10, "save_every_s": 3000.0}
    assert kinds(training(samples(100)), **old) == []


def test_time_in_which_it_stood_still_is_no_training() -> None:
    """A stall of the storage delays the next checkpoint by as much; so it is no sign that saves fail."""
    rows = samples(100)
    stalled = [*rows[:50], *(replace(row, at=row.at + timedelta(seconds=2400)) for row in rows[50:])]
    late = {"saved_at": at(1800), "saved_step": 450, "save_every_s": 1500.0}
    assert kinds(training(stalled), **late) == []  # 4600 s after it, 2280 of them in the stall
    steady = samples(160)
    assert kinds(training(steady), **late) == ["unsaved"]  # as long after it, without one


def test_a_run_without_any_checkpoint_is_told_where_it_said_that_it_saves() -> None:
    facts = training(samples(600))
    assert kinds(facts, saves_to="/ckpt/run") == ["unsaved"]
    assert kinds(facts) == []
    assert kinds(training(samples(300)), saves_to="/ckpt/run") == []


# not restored


def told(source: Source, step: int) -> tuple[Told, ...]:
    return (Told(source=source, step=step),)


def test_whoever_starts_it_from_scratch_although_there_is_a_checkpoint_is_told() -> None:
    (alarm,) = found(training(samples(5)), expected_step=400, told=told(Source.FIRST_STEP, 10), log_interval=10)
    assert alarm.reason.startswith("It starts from scratch, though step 400 of its run is complete.")
    assert kinds(training(samples(5)), expected_step=400, told=told(Source.LOAD, 200)) == ["not_restored"]


def test_what_continues_where_it_stood_or_has_caught_up_is_no_alarm() -> None:
    on = training(samples(5, first_step=410))
    assert kinds(on, expected_step=400, told=told(Source.LOAD, 400)) == []
    assert kinds(training(samples(60)), expected_step=400, told=told(Source.FIRST_STEP, 10), log_interval=10) == []
    assert kinds(training(samples(5)), told=told(Source.FIRST_STEP, 10), log_interval=10) == []


def test_a_restart_that_a_case_of_ours_watches_is_left_to_it() -> None:
    scratch = {"expected_step": 400, "told": told(Source.FIRST_STEP, 10), "log_interval": 10}
    assert kinds(training(samples(5)), **scratch, is_verified=True) == []


def test_another_runs_checkpoint_is_told_whatever_its_step() -> None:
    load = mark(SignalKind.LOADED, 3, path="/ckpt/other/iter_0000400", step=400, at=at(30))
    facts = training(samples(5, first_step=410), signals=(load,))
    around = {"expected_step": 400, "told": told(Source.LOAD, 400)}
    assert kinds(facts, **around, saves_to="/ckpt/run") == ["not_restored"]
    assert kinds(facts, **around, saves_to="/ckpt/other") == []
    assert kinds(facts, **around, saves_to="/ckpt/other/iter_0000400/deep") == []


# crash loop


def end(seconds: float, step: int | None, signature: str = "code.traceback", **fields: object) -> End:
    return End(at=at(seconds), step=step, signature=signature, state=JobState.FAILED, **fields)  # type: ignore[arg-type]


def test_two_ends_alike_at_one_step_without_a_checkpoint_between_are_a_loop() -> None:
    facts = attempt(state=JobState.FAILED, ended_at=at(3000), now_s=3010, last_step=1200)
    (alarm,) = found(facts, ends=(end(1000, 1200), end(3000, 1210)), log_interval=10)
    assert alarm.reason.startswith("The run ended 2 times at step 1\u202f210 or within one report of it")


@pytest.mark.parametrize(
    "ends",
    [
        (end(3000, 1210),),
        (end(1000, 1200), end(3000, 1220)),
        (end(1000, 1200), end(3000, 1200, "gpu.oom")),
        (end(1000, 1200), end(3000, 1200, saved_since=True)),
        (end(1000, None), end(3000, None)),
        (end(1000, 1200), replace(end(3000, 1200), state=JobState.PREEMPTED)),
    ],
)
def test_other_ends_are_no_loop(ends: tuple[End, ...]) -> None:
    facts = attempt(state=JobState.FAILED, ended_at=at(3000), now_s=3010, last_step=1200)
    assert kinds(facts, ends=ends, log_interval=10) == []


def test_a_loop_is_left_by_a_step_beyond_it_or_a_new_checkpoint() -> None:
    loop = {"ends": (end(-3000, 100), end(-1000, 100)), "log_interval": 10}
    assert kinds(training(samples(5)), **loop) == ["crash_loop"]
    assert kinds(training(samples(20)), **loop) == []
    assert kinds(training(samples(5)), **loop, saved_at=at(100)) == []


# stragglers


def by_rank(*times: float, count: int = 5) -> tuple[Sample, ...]:
    reports = samples(count)
    return tuple(
        replace(report, rank=rank, step_time_s=time) for report in reports for rank, time in enumerate(times)
    )  # fmt: skip


def test_a_rank_that_is_slow_in_every_report_is_told_with_its_node() -> None:
    ranks = by_rank(1.0, 1.0, 1.0, 1.5)
    (alarm,) = found(training(samples(5)), ranks=ranks, node_of=((3, "gpu-04"),), slow_elsewhere=(("gpu-04", 2),))
    assert alarm.reason == (
        "Rank 3 on gpu-04 takes 1.5 times as long for a step as the median of 4 ranks, in each of the last 5 reports. "
        "gpu-04 was among the slow in 2 other jobs lately."
    )


@pytest.mark.parametrize(
    "ranks",
    [
        by_rank(1.0, 1.0, 1.5),  # too few to compare
        by_rank(1.0, 1.0, 1.5, 1.5),  # half of them: two kinds of ranks
        by_rank(1.0, 1.0, 1.0, 1.2),
        by_rank(1.0, 1.0, 1.0, 1.5, count=4),
        (*by_rank(1.0, 1.0, 1.0, 1.5, count=4), *by_rank(1.0, 1.0, 1.0, 1.0, count=1)),
    ],
)
def test_ranks_that_differ_a_little_or_for_a_moment_are_no_stragglers(ranks: tuple[Sample, ...]) -> None:
    assert kinds(training(samples(5)), ranks=ranks) == []


def test_where_no_rank_reports_for_itself_a_node_of_several_slow_jobs_is_named() -> None:
    facts = training(samples(5))  # on four nodes
    (alarm,) = found(facts, is_slow=True, slow_elsewhere=(("gpu-04", 2),))
    assert alarm.kind == "straggler"
    assert alarm.reason == "It runs slow, and gpu-04 was among the nodes of 2 other slow jobs within a day."
    assert [line.node for line in alarm.evidence] == ["gpu-04"]
    assert kinds(facts, is_slow=True, slow_elsewhere=(("gpu-04", 2),), ranks=by_rank(1.0)) == ["straggler"]
    assert kinds(facts, slow_elsewhere=(("gpu-04", 2),)) == []
    assert kinds(facts, is_slow=True) == []
    same_again = (("gpu-01", 1), ("gpu-02", 1), ("gpu-03", 1))
    assert kinds(facts, is_slow=True, slow_elsewhere=same_again) == []


def test_nodes_that_slow_jobs_share_and_healthy_ones_do_not_are_suspect() -> None:
    slow = {"a": frozenset({"n1", "n2"}), "b": frozenset({"n2", "n3"}), "c": frozenset({"n3", "n2"})}
    assert shared_nodes(slow, frozenset({"n3"})) == {"n2": 3}


# all of them


def test_what_stands_still_with_others_is_told_as_such() -> None:
    facts = attempt(samples=samples(20), now_s=2000, stalled_with=4)
    (alarm,) = found(facts)
    assert alarm.reason.startswith("No progress for 20 m, and 4 other jobs of the cluster stopped")


LOUD = {
    "ranks": by_rank(1.0, 1.0, 1.0, 9.0), "saved_at": at(0), "save_every_s": 100.0, "expected_step": 10**6,
    "told": told(Source.LOAD, 5), "log_interval": 10,
}  # fmt: skip


def test_nothing_that_rests_on_reports_is_told_of_a_blind_attempt_or_by_an_old_picture() -> None:
    facts = training(losing(*STEADY, *[None] * 20), stalled_with=3)
    assert set(kinds(facts, **LOUD)) == {"numerics", "unsaved", "not_restored", "straggler", "shared_stall"}
    assert kinds(replace(facts, blind_reason="The log can't be read."), **LOUD) == []
    assert kinds(replace(facts, now=facts.seen_at + timedelta(seconds=61)), **LOUD) == []


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 50)), min_size=1, max_size=150), st.sampled_from(JobState))
def test_whatever_the_losses_nothing_is_told_of_what_is_blind_or_does_not_run(
    losses: list[float | None], state: JobState
) -> None:
    facts = training(losing(*losses), state=state)
    if state is not JobState.RUNNING:
        assert kinds(facts, **LOUD) == []
    assert kinds(replace(facts, blind_reason="Nobody knows."), **LOUD) == []


@given(st.floats(0, 10), st.floats(0, 20_000))
def test_the_later_the_checkpoint_the_more_it_is_an_alarm(hours: float, more: float) -> None:
    facts = training(samples(900))
    around = {"save_every_s": 3600.0, "saved_step": 1}
    late, later = at(36_000 - hours * 3600), at(36_000 - hours * 3600 - more)
    assert "unsaved" not in kinds(facts, **around, saved_at=late) or "unsaved" in kinds(
        facts, **around, saved_at=later
    )  # fmt: skip
