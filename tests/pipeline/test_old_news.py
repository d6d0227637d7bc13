"""Executions that had ended when they were first seen: news between two pictures, history before the first one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from recovery.core.lifecycle import IncidentState
from recovery.core.types import DecisionKind, JobState
from recovery.models import Attempt, Cluster, Decision, Incident, PolicyVersion
from tests.pipeline.conftest import ECC, Desk
from tests.pipeline.fake_slurm import no_answer

Policy = Callable[..., PolicyVersion]


def crash_unseen(desk: Desk, *, ended_ago_s: float = 0.0) -> None:
    """A job that starts and dies before anybody looks; Slurm tells whole seconds."""
    desk.submit()
    desk.start()
    desk.step(10)
    desk.save(10)
    desk.say(ECC)
    desk.slurm.end()
    ended = desk.now.replace(microsecond=0) - timedelta(seconds=ended_ago_s)
    desk.slurm.change("1", submitted_at=ended, started_at=ended, ended_at=ended)


@pytest.mark.parametrize("behind_s", [0, 60])
def test_a_crash_between_two_pictures_is_news_whatever_second_slurm_gives(desk: Desk, behind_s: float) -> None:
    """Within the second of the last picture, and where the controller's clock is behind ours."""
    desk.now += timedelta(seconds=0.6)
    desk.tick()
    desk.now += timedelta(seconds=0.1)
    crash_unseen(desk, ended_ago_s=behind_s)
    desk.tick(times=6)
    attempt = Attempt.objects.get()
    assert attempt.ended_at is not None
    assert attempt.ended_at < desk.now - timedelta(seconds=12)  # before the picture in which it was not
    assert Incident.objects.get().attempt_id == attempt.pk
    assert not attempt.ended_unwatched


def test_what_ended_long_before_the_last_picture_had_been_hidden_and_is_history(desk: Desk) -> None:
    """An account that may see other people's jobs from now on, say."""
    desk.tick()
    crash_unseen(desk, ended_ago_s=200)
    desk.tick(times=6)
    assert Attempt.objects.get().closed_at is not None
    assert not Incident.objects.exists()


def test_the_first_picture_of_another_controller_is_a_first_picture(desk: Desk) -> None:
    desk.tick()
    Cluster.objects.update(options={"slurm_conf": "/etc/slurm/other.conf"})
    crash_unseen(desk)
    desk.tick(times=6)
    assert Attempt.objects.get().closed_at is not None
    assert not Incident.objects.exists()


@pytest.mark.parametrize("silent_s", [10, 300], ids=["a blink", "a gap"])
def test_after_a_gap_no_policy_acts_on_what_failed_unseen(desk: Desk, policy: Policy, silent_s: float) -> None:
    policy(gpu_hardware="auto")
    desk.tick()
    desk.slurm.silent = no_answer()
    desk.tick(seconds=silent_s / 2)
    crash_unseen(desk)
    desk.tick(seconds=silent_s / 2)
    desk.slurm.silent = None
    desk.tick(times=8)
    gap = silent_s > 60
    assert Attempt.objects.get(number=0).ended_unwatched == gap
    if gap:
        assert desk.incident.state == IncidentState.AWAITING_DECISION
        assert "nobody could watch it, so a person decides" in desk.recommendation.mode_reason
        assert desk.slurm.calls == []
    else:
        assert Decision.objects.get().kind == DecisionKind.AUTO
        assert desk.slurm.calls


def test_what_was_watched_before_a_gap_and_ended_in_it_is_acted_on_as_ever(desk: Desk, policy: Policy) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.slurm.silent = no_answer()
    desk.tick(seconds=100)
    desk.say(ECC)
    desk.slurm.end()
    desk.slurm.silent = None
    desk.tick(times=8)
    assert Attempt.objects.get(number=0).state == JobState.FAILED
    assert desk.slurm.calls
