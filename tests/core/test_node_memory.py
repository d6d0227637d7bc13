"""Strikes of nodes: what counts, how it fades, what makes a suspect and what never does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import lemons
from recovery.core.node_memory import MemoryLimits, Place, Standing, Strike, ToldBy, avoidable, places, standing, weigh
from recovery.core.types import Diagnosis, Evidence, Exclude, FailureClass, Restart, Role

C = FailureClass
NOW = datetime(2026, 1, 11, 9, 20, tzinfo=UTC)
LIMITS = MemoryLimits()
CAUSE = Evidence(text="NVRM: Xid 79", source="node", role=Role.CAUSE, rule="xid.79", node="gpu-01")
BY_LOG = replace(CAUSE, source="/logs/a.out", rule="cuda.ecc_uncorrectable")


def verdict(**fields: Any) -> Diagnosis:
    defaults: dict[str, Any] = {
        "failure_class": C.GPU_HARDWARE, "restart": Restart.YES, "exclude": Exclude.NODES, "nodes": ("gpu-01",),
        "confidence": 0.9, "reason": "r", "first_failure": CAUSE,
    }  # fmt: skip
    return Diagnosis(**{**defaults, **fields})


def strike(run: int = 1, days_ago: float = 0, **fields: Any) -> Strike:
    defaults: dict[str, Any] = {
        "at": NOW - timedelta(days=days_ago), "run": run, "user": f"user-{run}", "proven": True,
        "told_by": ToldBy.KERNEL, "failure_class": C.GPU_HARDWARE,
    }  # fmt: skip
    return Strike(**{**defaults, **fields})


def stands(*strikes: Strike) -> Standing:
    return standing(strikes, LIMITS, now=NOW)


# --- what is a strike -------------------------------------------------------------------------------------------------


def test_a_node_that_the_verdict_proves_or_suspects_by_a_cause_is_struck() -> None:
    assert places(verdict()) == (Place(node="gpu-01", proven=True, told_by=ToldBy.KERNEL),)
    suspected = verdict(exclude=Exclude.IF_REPEATED, nodes=(), first_failure=BY_LOG)
    assert places(suspected) == (Place(node="gpu-01", proven=False, told_by=ToldBy.LOG),)
    by_record = verdict(failure_class=C.NODE_FAULT, first_failure=None)
    assert places(by_record) == (Place(node="gpu-01", proven=True, told_by=ToldBy.SLURM),)


def test_who_lost_a_peer_is_not_struck_for_it() -> None:
    told = replace(BY_LOG, rule="nccl.ib_retry")
    lost = verdict(failure_class=C.NETWORK_FABRIC, exclude=Exclude.IF_REPEATED, nodes=(), first_failure=told)
    assert places(lost) == ()


def test_a_node_that_died_is_struck_also_where_slurm_has_already_requeued_its_job() -> None:
    down = replace(CAUSE, rule="node.down", text="DOWN: Not responding")
    requeued = {"failure_class": C.NODE_FAULT, "restart": Restart.NO, "exclude": Exclude.NONE, "nodes": ()}
    struck = verdict(**requeued, first_failure=down, evidence=(down, replace(CAUSE, node="gpu-03")))
    assert places(struck) == (Place(node="gpu-01", proven=True, told_by=ToldBy.SLURM),)
    rack = tuple(replace(down, node=f"gpu-0{n}") for n in range(1, 5))
    assert places(verdict(**requeued, first_failure=rack[0], evidence=rack)) == ()
    assert places(verdict(**requeued, first_failure=replace(down, role=Role.CONSEQUENCE))) == ()
    assert places(verdict(**{**requeued, "failure_class": C.USER_CODE}, first_failure=down)) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"exclude": Exclude.IF_REPEATED, "nodes": (), "first_failure": replace(CAUSE, role=Role.CONSEQUENCE)},
        {"failure_class": C.HANG_COLLECTIVE, "exclude": Exclude.IF_REPEATED, "nodes": ()},
        {"exclude": Exclude.HOLD, "nodes": ()},
        {"exclude": Exclude.NONE, "nodes": ()},
        {"exclude": Exclude.IF_REPEATED, "nodes": (), "first_failure": replace(CAUSE, node="")},
        {"nodes": ("gpu-01", "gpu-02", "gpu-03")},
        {"failure_class": C.STORAGE_FULL, "exclude": Exclude.IF_REPEATED, "nodes": ()},
    ],
    ids=["a victim's word", "a time-out", "held", "none", "no place", "many nodes", "a full disk"],
)
def test_what_is_no_nodes_own_strikes_none(fields: dict[str, Any]) -> None:
    assert places(verdict(**fields)) == ()


# --- what strikes come to ---------------------------------------------------------------------------------------------


def test_a_strike_fades_by_half_and_is_forgotten() -> None:
    half = LIMITS.half_life_s / 86_400
    assert weigh(strike(), LIMITS, now=NOW) == 1
    assert weigh(strike(days_ago=half), LIMITS, now=NOW) == pytest.approx(0.5)
    assert weigh(strike(days_ago=5 * half), LIMITS, now=NOW) == 0


def test_how_the_run_went_on_changes_what_a_strike_weighs() -> None:
    unknown, moved, stayed = (weigh(strike(elsewhere=how), LIMITS, now=NOW) for how in (None, True, False))
    assert stayed < unknown < moved


def test_two_runs_make_a_suspect_that_runs_out_and_one_run_never_does() -> None:
    found = stands(strike(1), strike(2, days_ago=1))
    assert found.suspect
    assert found.until == NOW + timedelta(seconds=LIMITS.suspect_s)
    assert not stands(*[strike(1) for _ in range(20)]).suspect


def test_old_strikes_make_no_suspect() -> None:
    assert not stands(strike(1, days_ago=20), strike(2, days_ago=21)).suspect


def test_what_one_users_jobs_print_never_makes_a_suspect() -> None:
    lies = [strike(run, told_by=ToldBy.LOG, user="eve", elsewhere=True) for run in range(20)]
    assert not stands(*lies).suspect
    assert stands(*lies, strike(99, told_by=ToldBy.LOG, user="ada")).suspect
    assert stands(*lies, strike(99, told_by=ToldBy.SLURM, user="eve")).suspect


def test_the_reason_says_how_many_failed_and_how_many_went_on_elsewhere() -> None:
    assert stands().reason == "No failure is known that began on it."
    said = stands(strike(1, elsewhere=True), strike(2, failure_class=C.NODE_FAULT)).reason
    assert said == "2 failures of 2 runs began on it (gpu hardware and node fault); 1 run went on elsewhere."


@given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 80), st.booleans()), max_size=12), st.floats(0, 60))
def test_time_alone_never_makes_a_node_worse(drawn: list[tuple[int, float, bool]], later_days: float) -> None:
    strikes = [strike(run, days_ago=days, proven=proven) for run, days, proven in drawn]
    later = standing(strikes, LIMITS, now=NOW + timedelta(days=later_days))
    assert later.score <= stands(*strikes).score + 1e-9
    assert not (later.suspect and not stands(*strikes).suspect)


# --- who is avoided ---------------------------------------------------------------------------------------------------


def test_suspects_are_avoided_the_worst_first_within_caps_and_what_the_job_needs() -> None:
    nodes = tuple(f"gpu-{n}" for n in range(6))
    suspects = ("gpu-3", "gpu-9", "gpu-1", "gpu-0")

    def avoided(needed: int = 2, room: int = 9, excluded: tuple[str, ...] = ()) -> tuple[str, ...]:
        return avoidable(suspects, eligible=nodes, excluded=excluded, needed=needed, room=room)

    assert avoided() == ("gpu-3", "gpu-1", "gpu-0")  # gpu-9 is none of those it could start on
    assert avoided(room=1) == ("gpu-3",)
    assert avoided(needed=4) == ("gpu-3", "gpu-1")
    assert avoided(needed=6) == avoided(room=0) == avoided(room=-2) == ()
    assert avoided(excluded=("gpu-3",)) == ("gpu-1", "gpu-0")
    assert avoidable(suspects, eligible=None, excluded=(), needed=1, room=9) == ()


# --- on a fleet with known lemons -------------------------------------------------------------------------------------


def test_on_a_simulated_fleet_lemons_are_found_and_others_left_alone() -> None:
    told = lemons.tell(nodes=1500, days=84, seed=1)
    figures = lemons.judge(told, LIMITS)
    assert figures["found_by_rate"]["150"] == 1.0
    assert figures["found_by_rate"]["60"] >= 0.8
    assert figures["wrong_per_1000_node_months"] < 1.0
    anything_goes = replace(LIMITS, half_life_s=1e12, keep_s=1e12, runs=1, suspect_at=1.0)
    assert lemons.judge(told, anything_goes)["wrong_per_1000_node_months"] > 10
