from __future__ import annotations

from recovery.core.diagnose import diagnose
from recovery.core.types import Diagnosis, Exclude, FailureClass, PastFailure, Restart
from tests.core.attempts import crash, ended, event, past, samples

C = FailureClass
CONTAINED = event("gpu-02", "NVRM: Xid (PCI:0000:1b:00): 94, pid=1, Contained")
DEAD = event("gpu-02", "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")
UNKNOWN_EXIT = ended(samples=samples(40))


def verdict(*history: PastFailure, events: tuple[object, ...] = (CONTAINED,)) -> Diagnosis:
    facts = ended(samples=samples(40), node_events=events)
    return diagnose(facts, crash(facts), history)


def test_a_suspect_is_excluded_the_second_time() -> None:
    assert verdict().exclude is Exclude.IF_REPEATED
    again = verdict(past(C.GPU_HARDWARE, nodes=("gpu-02",), step=100))
    assert (again.exclude, again.nodes) == (Exclude.NODES, ("gpu-02",))
    assert "second time on gpu-02" in again.reason


def test_another_nodes_past_does_not_condemn_this_one() -> None:
    assert verdict(past(C.GPU_HARDWARE, nodes=("gpu-03",), step=100)).exclude is Exclude.IF_REPEATED
    assert verdict(past(C.USER_CODE, nodes=("gpu-02",), step=100)).exclude is Exclude.IF_REPEATED


def test_once_means_once() -> None:
    facts = UNKNOWN_EXIT
    assert diagnose(facts, crash(facts)).restart is Restart.ONCE
    again = diagnose(facts, crash(facts), [past(C.UNKNOWN, step=100)])
    assert again.restart is Restart.AFTER_CHANGE
    assert "brought no new checkpoint" in again.reason


def test_a_new_checkpoint_earns_the_one_try_back() -> None:
    facts = UNKNOWN_EXIT
    assert diagnose(facts, crash(facts), [past(C.UNKNOWN, checkpoint_since=True)]).restart is Restart.ONCE


def test_what_was_only_watched_is_no_try() -> None:
    facts = UNKNOWN_EXIT
    assert diagnose(facts, crash(facts), [past(C.UNKNOWN, acted=False)]).restart is Restart.ONCE


def test_before_the_first_step_there_is_no_step_to_compare() -> None:
    facts = ended(node_events=[DEAD])
    again = diagnose(facts, crash(facts), [past(C.GPU_HARDWARE, step=None)])
    assert again.restart is Restart.YES
    assert "contradictions" not in again.coverage


def test_what_is_tried_once_anyway_gets_no_further_doubt() -> None:
    facts = ended(samples=samples(40), exit_code=139)
    assert "contradictions" not in diagnose(facts, crash(facts), [past(C.USER_CODE, step=400, acted=False)]).coverage


def test_hardware_does_not_fail_twice_at_one_step() -> None:
    assert verdict(events=(DEAD,)).restart is Restart.YES
    again = verdict(past(C.GPU_HARDWARE, step=400, acted=False), events=(DEAD,))
    assert again.restart is Restart.ONCE
    assert "points at code or data" in again.reason
    assert again.confidence < 0.9
    elsewhere = verdict(past(C.GPU_HARDWARE, step=200), events=(DEAD,))
    assert elsewhere.restart is Restart.YES
