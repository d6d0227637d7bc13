"""What an exit status says alone, and that an unread log is said."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.core.diagnose import diagnose
from recovery.core.types import AttemptFacts, Diagnosis, Exclude, FailureClass, JobState, Restart
from tests.core.attempts import crash, ended

C = FailureClass


def verdict(facts: AttemptFacts) -> Diagnosis:
    return diagnose(facts, crash(facts))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"exit_code": 1}, (C.UNKNOWN, Restart.ONCE, Exclude.NONE)),
        ({"exit_code": 0, "exit_signal": 11}, (C.USER_CODE, Restart.ONCE, Exclude.IF_REPEATED)),
        ({"exit_code": 139}, (C.USER_CODE, Restart.ONCE, Exclude.IF_REPEATED)),
        ({"exit_code": 1, "step_exit_codes": (139,)}, (C.USER_CODE, Restart.ONCE, Exclude.IF_REPEATED)),
        ({"exit_code": 137}, (C.UNKNOWN, Restart.ONCE, Exclude.NONE)),
        ({"exit_code": 127}, (C.LAUNCH_CONFIG, Restart.AFTER_CHANGE, Exclude.NONE)),
        ({"exit_code": 126}, (C.LAUNCH_CONFIG, Restart.AFTER_CHANGE, Exclude.NONE)),
        ({"exit_code": 0, "state_reason": "NodeDown"}, (C.NODE_FAULT, Restart.YES, Exclude.IF_REPEATED)),
        ({"state_reason": "JobLaunchFailure"}, (C.SCHEDULER_LAUNCH, Restart.ONCE, Exclude.IF_REPEATED)),
        # Slurm 22.05 gives this reason for a batch shell that was killed by a signal: it misleads
        ({"exit_signal": 11, "state_reason": "JobLaunchFailure"}, (C.USER_CODE, Restart.ONCE, Exclude.IF_REPEATED)),
        ({"exit_code": None}, (C.UNKNOWN, Restart.ONCE, Exclude.NONE)),
    ],
)  # fmt: skip
def test_a_bare_exit_status_is_judged_honestly(fields: dict[str, Any], expected: tuple[object, ...]) -> None:
    got = verdict(ended(**fields))
    assert (got.failure_class, got.restart, got.exclude) == expected
    assert got.confidence < 0.9


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"exit_code": 137}, "A process was killed (SIGKILL)"),
        ({"exit_code": 128}, "ended with exit code 128"),
        ({"exit_code": 129}, "ended with signal 1"),
        ({"exit_code": 159}, "ended with signal 31"),
        ({"exit_code": 160}, "ended with exit code 160"),
        ({"exit_code": 255}, "ended with exit code 255"),
        ({"exit_code": 0}, "ended with no exit code"),
        ({"exit_code": None, "state": JobState.UNKNOWN}, "Nothing that was read says how the job ended."),
        ({"exit_code": 1, "state": JobState.UNKNOWN}, "ended with exit code 1"),
    ],
)
def test_an_unknown_end_is_told_as_far_as_it_is_known(fields: dict[str, Any], words: str) -> None:
    got = verdict(ended(**fields))
    assert got.failure_class is C.UNKNOWN
    assert words in got.reason


def test_an_unreadable_log_is_said_and_lowers_the_confidence() -> None:
    got = verdict(ended(blind_reason="The log /x can't be read: permission denied."))
    assert "permission denied" in got.coverage["job log"]
    assert "could not be read" in got.reason
    assert got.confidence < 0.3


@pytest.mark.parametrize("status", [{"exit_code": 130}, {"exit_code": 0, "exit_signal": 2}])
def test_who_interrupts_a_job_does_not_want_it(status: dict[str, Any]) -> None:
    facts = ended(**status)
    got = diagnose(facts, crash(facts))
    assert (got.failure_class, got.restart) == (FailureClass.EXTERNAL_CANCEL, Restart.NO)
