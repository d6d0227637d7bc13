"""docs/actions.md says what the plans do: its tables are walked through cell by cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recovery.core.plans import RULES, Hold, Intent, Seen, Step, Then, TrackerSeen, World, next_step
from recovery.core.types import PUT_BACK, ActionKind, JobState
from recovery.pipeline.observe import ON_NODES
from tests.docs.pages import read, tables

S = JobState
THEN = {Then.VERIFY: "is verified", Then.WATCH: "is watched", Then.CLOSE: "is closed"}
# The approved state of the job, by action, and how it looks now, by the first word of the row.
APPROVED = {
    ActionKind.REQUEUE: S.FAILED,
    ActionKind.REQUEUE_EXCLUDING: S.FAILED,
    ActionKind.RELEASE: S.PENDING,
    ActionKind.HOLD: S.PENDING,
    ActionKind.CANCEL: S.RUNNING,
    ActionKind.RESUBMIT: S.FAILED,
    ActionKind.EXTEND_TIME_LIMIT: S.RUNNING,
    ActionKind.RESTORE_OLDER: S.FAILED,
}
PARAMETERS: dict[ActionKind, dict[str, Any]] = {
    ActionKind.RELEASE: {"of": "slurm"},
    ActionKind.EXTEND_TIME_LIMIT: {"seconds": 7200.0, "from_s": 3600.0},
    ActionKind.RESTORE_OLDER: {"step": 10, "write": "10", "old": "20", "then": "requeue"},
}


TABLES = tables(read("docs/actions.md"))


def test_the_table_of_actions_is_that_of_the_code() -> None:
    *found, nothing = TABLES[0]
    assert [row["action"].strip("`") for row in found] == [*RULES]
    assert nothing["action"] == "`nothing`"
    for row in found:
        rules = RULES[ActionKind(row["action"].strip("`"))]
        assert row["without a person"].startswith("may") is rules.automatic
        assert row["then the case"] == THEN[rules.then]
        assert (row["undo"] == "none") is (rules.undone_by is None)


def seen(situation: str, kind: ActionKind) -> tuple[JobState, World]:
    """The approved state, and the world of a row."""
    state = APPROVED[kind]
    held = Hold.LAUNCH if kind is ActionKind.RELEASE else Hold.NONE
    nodes = () if state is S.PENDING else ("n1",)
    job = Seen(
        state=state, restart_count=0, hold=held, requeueable=True, nodes=nodes, excluded_nodes=(), time_limit_s=3600.0
    )
    changes: dict[str, dict[str, Any]] = {
        "was cancelled by somebody": {"state": S.CANCELLED},
        "is COMPLETING": {"state": S.COMPLETING},
        "was requeued by Slurm, or by somebody": {"state": S.PENDING, "restart_count": 1},
        "was put back and is held by somebody (`requeuehold`)": {
            "state": S.PENDING,
            "restart_count": 1,
            "hold": Hold.REQUEUE,
            "nodes": (),
        },
        "is held by somebody else": {"hold": Hold.ADMIN},
        "may not be requeued (`--no-requeue`)": {"requeueable": False},
        "was preempted, and stays ended": {"state": S.PREEMPTED},
    }
    if situation == "is no longer listed":
        return state, World()
    if situation == "was preempted, and stays ended" and state is S.FAILED:
        state = S.PREEMPTED
    return state, World(job=replace(job, **changes[situation]), tracker=TrackerSeen(content="20", complete=True))


@pytest.mark.parametrize("row", TABLES[1], ids=[row["the job"] for row in TABLES[1]])
def test_every_situation_has_the_answer_that_the_table_gives(row: dict[str, str]) -> None:
    situation = row["the job"]
    for name, said in list(row.items())[1:]:
        kind = ActionKind(name)
        if (situation, kind) in BEFORE_THE_PLAN:
            assert said == "refuse"
            assert kind in PUT_BACK
            continue
        state, world = seen(situation, kind)
        intent = Intent(
            kind=kind, exclude_nodes=(), attempt_number=0, attempt_state=state,
            attempt_nodes=() if state is S.PENDING else ("n1",), begun=frozenset(), parameters=PARAMETERS.get(kind, {}),
        )  # fmt: skip
        assert next_step(intent, world).step is Step(said), (situation, kind)


# Refused by what is asked before a plan's first call (recovery/pipeline/veto.py; tests/pipeline/test_facts_change.py).
BEFORE_THE_PLAN = {
    ("is held by somebody else", ActionKind.REQUEUE),
    ("is held by somebody else", ActionKind.REQUEUE_EXCLUDING),
    ("is held by somebody else", ActionKind.RESUBMIT),
    ("is held by somebody else", ActionKind.RESTORE_OLDER),
}


def test_the_table_has_a_column_for_each_action_on_a_job() -> None:
    assert list(TABLES[1][0])[1:] == [kind for kind in RULES if kind not in ON_NODES]
