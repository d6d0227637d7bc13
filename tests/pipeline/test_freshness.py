"""Nothing is decided and nothing is begun on a picture that is not live."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User

from recovery.access import actor_for
from recovery.core.lifecycle import IncidentState
from recovery.core.types import DecisionKind
from recovery.models import Action, Decision, PolicyVersion
from recovery.pipeline import decide
from tests.factories import make_cluster
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import no_answer

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "trouble",
    [{"error": "squeue: no answer within 10 s"}, {"seen_at": None}, {"enabled": False}],
    ids=["no answer", "never seen", "switched off"],
)
def test_a_cluster_that_is_not_looked_at_is_stale_at_once(trouble: dict[str, object]) -> None:
    now = datetime.now(UTC)
    assert make_cluster(**trouble).is_stale(now)
    assert not make_cluster().is_stale(now)


def test_a_policy_decides_nothing_while_slurm_is_silent_and_goes_on_when_it_answers(
    desk: Desk, policy: Callable[..., PolicyVersion]
) -> None:
    policy(gpu_hardware="auto")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.slurm.silent = no_answer()
    desk.tick(times=10)
    assert not Decision.objects.exists()
    assert not Action.objects.exists()
    desk.slurm.silent = None
    desk.tick_until(lambda: desk.slurm.calls != [])
    assert Decision.objects.get().kind == DecisionKind.AUTO


def test_a_question_does_not_run_out_while_nobody_can_answer_it(
    desk: Desk, policy: Callable[..., PolicyVersion], approver: User
) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    desk.tick_until(lambda: desk.incident.state == IncidentState.AWAITING_DECISION)
    first = desk.recommendation
    desk.slurm.silent = no_answer()
    desk.tick(seconds=60, times=130)  # longer than any question stays open
    assert desk.incident.state == IncidentState.AWAITING_DECISION
    desk.slurm.silent = None
    desk.tick(times=3)
    assert desk.recommendation.pk == first.pk
    assert desk.recommendation.expires_at - desk.now > timedelta(minutes=9)
    decide.approve(first.pk, shown_hash=first.hash, actor=actor_for(approver), now=desk.now)
    assert Decision.objects.get().kind == DecisionKind.APPROVE
