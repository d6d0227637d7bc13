"""Nodes and what happened to them, and where a job could start by what is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery import selectors
from recovery.access import actor_for
from recovery.core.types import ActionKind, JobState, NodeState
from recovery.models import Action, Cluster, Incident, Job, Node, NodeEvent, PolicyVersion
from recovery.pipeline import decide
from recovery.pipeline.eligible import eligible_nodes
from recovery.pipeline.facts import attempt_facts
from recovery.pipeline.store_nodes import KEEP_EVENTS
from recovery.slurm.base import AttemptRecord, Operation, ReservationRecord, SlurmUnreachable
from tests.pipeline.conftest import Desk
from tests.pipeline.fake_slurm import FakeSlurm
from tests.pipeline.polling import poll, the_cluster

Policy = Callable[..., PolicyVersion]


def eligible(desk: Desk) -> Any:
    return eligible_nodes(Job.objects.get(), now=desk.now)


def test_a_change_of_state_is_an_event_with_its_reason(desk: Desk) -> None:
    poll(desk)
    assert not NodeEvent.objects.exists()  # the first picture tells of no change
    went = desk.now + timedelta(seconds=1)
    desk.slurm.change_node(
        "n2", state=NodeState.DRAINED, raw_state="IDLE+DRAIN", reason="bad fan", reason_by="root", reason_at=went
    )
    poll(desk)
    poll(desk)
    event = NodeEvent.objects.get()
    assert (event.node, event.old, event.new, event.reason, event.by) == ("n2", "up", "drained", "bad fan", "root")
    assert (event.at, event.seen_at) == (went, desk.now - timedelta(seconds=2))
    desk.slurm.resume_node("n2")
    poll(desk)
    assert [event.new for event in selectors.node_events(cluster_id=the_cluster().pk, name_contains="n2")] == [
        "up",
        "drained",
    ]


def test_a_reason_from_before_the_last_picture_does_not_date_an_event(desk: Desk) -> None:
    poll(desk)
    desk.slurm.change_node("n2", state=NodeState.DOWN, reason="old", reason_at=desk.now - timedelta(days=3))
    poll(desk)
    assert NodeEvent.objects.get().at == desk.now


def test_nodes_that_come_and_go_are_events_too(desk: Desk) -> None:
    poll(desk)
    extra = desk.slurm.node_table.pop("n4")
    poll(desk)
    assert [(event.node, event.new) for event in NodeEvent.objects.all()] == [("n4", "")]
    desk.slurm.node_table["n5"] = replace(extra, name="n5", state=NodeState.DOWN)
    poll(desk)
    assert set(Node.objects.values_list("name", flat=True)) == {"n1", "n2", "n3", "n5"}
    assert NodeEvent.objects.filter(node="n5", old="", new="down").count() == 1


def test_old_events_are_forgotten(desk: Desk) -> None:
    poll(desk)
    desk.slurm.lose_node("n1")
    poll(desk)
    desk.slurm.resume_node("n1")
    poll(desk, seconds=KEEP_EVENTS.total_seconds())
    assert [event.new for event in NodeEvent.objects.all()] == ["up", "down"]
    poll(desk, seconds=400)
    assert [event.new for event in NodeEvent.objects.all()] == ["up"]


def test_features_and_gpus_are_stored(desk: Desk) -> None:
    desk.slurm.change_node("n1", features=("h100", "ib"), gpus=8)
    poll(desk)
    node = Node.objects.get(name="n1")
    assert (node.features, node.gpus) == (["h100", "ib"], 8)


# --- node events as facts of an attempt -------------------------------------------------------------------------------


def test_a_node_that_rebooted_under_the_job_is_a_fact_though_it_is_back(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.change_node("n2", state=NodeState.DOWN, raw_state="DOWN", reason="Node unexpectedly rebooted")
    poll(desk)
    desk.slurm.resume_node("n2")
    poll(desk)
    events = attempt_facts(desk.attempt, now=desk.now).node_events
    assert [(event.node, event.state) for event in events] == [("n2", NodeState.DOWN)]
    assert "rebooted" in events[0].text


def test_a_node_that_came_back_while_the_training_went_on_is_no_fact(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.lose_node("n2")
    poll(desk)
    desk.slurm.resume_node("n2")
    poll(desk)
    desk.now += timedelta(minutes=10)
    desk.train(13, 14)
    assert attempt_facts(desk.attempt, now=desk.now).node_events == ()


def test_the_last_words_on_a_state_count_from_its_beginning(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.change_node("n2", state=NodeState.DOWN, raw_state="DOWN", reason="")
    poll(desk)
    began = desk.now
    desk.slurm.change_node("n2", reason="Not responding")
    poll(desk)
    (event,) = attempt_facts(desk.attempt, now=desk.now).node_events
    assert (event.at, event.text) == (began, "DOWN: Not responding")


# --- eligible nodes by what is stored ---------------------------------------------------------------------------------


def test_eligible_nodes_follow_partitions_features_and_reservations(desk: Desk) -> None:
    desk.slurm.change_node("n1", features=("h100",))
    desk.slurm.change_node("n2", features=("h100",))
    reserved = ReservationRecord(
        name="maint", nodes=("n2",), starts_at=desk.now, ends_at=desk.now + timedelta(days=1), maintenance=True
    )
    desk.slurm.reservation_table = [reserved]
    desk.submit(features="h100")
    poll(desk)
    assert eligible(desk).nodes == ("n1",)
    desk.slurm.reservation_table.clear()
    poll(desk, seconds=61)
    assert eligible(desk).nodes == ("n1", "n2")


@pytest.mark.parametrize("trouble", ["never read", "can't", "silent", "old"])
def test_eligible_nodes_are_not_known_without_partitions(
    desk: Desk, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.submit()
    if trouble == "can't":
        desk.slurm.denied = {Operation.PARTITIONS}
    elif trouble == "silent":

        def no_partitions(self: FakeSlurm) -> Any:
            raise SlurmUnreachable("timed out", tried="partitions")

        monkeypatch.setattr(FakeSlurm, "partitions", no_partitions)
    assert poll(desk).observed  # the picture itself is good
    if trouble == "never read":
        Cluster.objects.update(partitions_at=None)
    elif trouble == "old":
        desk.now += timedelta(minutes=6)
    got = eligible(desk)
    assert got.nodes is None
    assert "not known" in got.reason
    assert trouble != "can't" or "has no partitions" in got.reason


def test_half_of_the_nodes_silent_at_once_is_recorded_and_no_node_is_blamed(desk: Desk) -> None:
    for number in range(5, 9):
        desk.slurm.node_table[f"n{number}"] = replace(desk.slurm.node_table["n1"], name=f"n{number}")
    desk.slurm.partition_table = [replace(desk.slurm.partition_table[0], nodes=tuple(desk.slurm.node_table))]
    desk.run_with_checkpoint()
    for name in ("n1", "n2", "n3", "n4"):
        desk.slurm.lose_node(name)
    desk.crash_with_ecc()
    desk.tick(times=15)
    assert NodeEvent.objects.filter(new=NodeState.DOWN).count() == 4
    assert "4 of 8 nodes went silent at once" in eligible(desk).reason
    assert desk.recommendation.exclude_nodes == []
    assert desk.slurm.calls == []
    assert Incident.objects.count() == 1


def test_nodes_that_are_down_since_the_first_picture_are_no_incident_of_now(desk: Desk) -> None:
    for name in ("n2", "n3", "n4"):
        desk.slurm.lose_node(name)
    desk.submit()
    poll(desk)
    assert eligible(desk).nodes == ("n1",)


def test_a_constraint_that_is_not_understood_excludes_nobody_and_says_so(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.change("1", features="[h100*2]")
    desk.crash_with_ecc()
    assert desk.recommendation.exclude_nodes == []
    assert any("constraint [h100*2] is not known" in reason for reason in desk.recommendation.reasons)


def test_a_node_that_the_job_was_submitted_for_is_not_left_out(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.change("1", required_nodes=("n1", "n2"))
    desk.crash_with_ecc()
    assert desk.recommendation.exclude_nodes == []
    assert any("submitted for it by name" in reason for reason in desk.recommendation.reasons)


def test_an_exclusion_is_not_begun_where_the_count_is_no_longer_known(
    desk: Desk, policy: Policy, approver: object
) -> None:
    policy(gpu_hardware="approve")
    desk.run_with_checkpoint()
    desk.crash_with_ecc()
    row = desk.recommendation
    assert row.exclude_nodes == ["n2"]
    desk.slurm.change("1", features="a&b|c")
    poll(desk, seconds=0)
    decide.approve(row.pk, shown_hash=row.hash, actor=actor_for(approver), now=desk.now)  # type: ignore[arg-type]
    desk.tick(times=2)
    assert desk.slurm.calls == []
    assert "not known" in Action.objects.get().detail


def test_a_job_that_slurm_forgot_is_not_proposed_to_be_requeued(desk: Desk) -> None:
    desk.slurm.accounting = True
    desk.run_with_checkpoint()
    attempt = desk.attempt
    desk.slurm.history.append(
        AttemptRecord(
            job_id="1", number=0, state=JobState.NODE_FAIL, submitted_at=attempt.submitted_at, ended_at=desk.now,
            exit_code=0, exit_signal=0, nodes=("n1", "n2"),
        )
    )  # fmt: skip
    desk.slurm.table.clear()
    desk.tick(times=8)
    assert desk.recommendation.action == ActionKind.NOTHING
    assert "must submit it anew" in desk.recommendation.headline
