"""When nothing but an exit status speaks. An honest verdict here is mostly *unknown*."""

from __future__ import annotations

from dataclasses import replace

from recovery.core.diagnose.verdict import Verdict
from recovery.core.types import AttemptFacts, Exclude, FailureClass, JobState, Restart

C = FailureClass
# Status of a shell whose program could not be run at all.
NOT_RUN = {126: "a program may not be executed", 127: "a program was not found"}

# Slurm's own status (0:53) where it could not set up the input and output of the job, before its first line.
NO_OUTPUT = 53

# ft_launcher of NVRx (NVIDIA's resiliency extension) ends so by default where it decided that the job must not be
# restarted (--ft-no-restart-exit-code); used-up restarts alone end with 1. Best effort: Slurm shows the highest code.
NVRX_NO_RESTART = 93

# Slurm's words for a job that it put back and will not start by itself.
HELD = frozenset({"launch_failed_requeued_held", "JobHoldMaxRequeue"})


def by_status(facts: AttemptFacts) -> Verdict:
    """The verdict from exit codes, signals and Slurm's reason alone."""
    if facts.state_reason == "JobLaunchFailure" and not facts.exit_signal:  # with a signal Slurm's word misleads
        return Verdict(
            failure_class=C.SCHEDULER_LAUNCH,
            restart=Restart.ONCE,
            exclude=Exclude.IF_REPEATED,
            confidence=0.7,
            reason="Slurm could not launch the job.",
        )
    if facts.state_reason == "NodeDown":
        return Verdict(
            failure_class=C.NODE_FAULT,
            restart=Restart.YES,
            exclude=Exclude.IF_REPEATED,
            confidence=0.85,
            reason="Slurm ended the job because a node went down; which one is not known.",
        )
    return _by_code(facts)


def as_nvrx_says(facts: AttemptFacts, verdict: Verdict) -> Verdict:
    """Whatever the cause: where NVRx decided that the job must not be restarted, we don't either."""
    codes = {facts.exit_code, *facts.step_exit_codes}
    if NVRX_NO_RESTART not in codes or verdict.restart not in (Restart.YES, Restart.ONCE):
        return verdict
    reason = f"{verdict.reason} NVRx's launcher ended with 93, its word not to restart the job."
    return replace(verdict, restart=Restart.NO, reason=reason)


def held_by_slurm(facts: AttemptFacts) -> Verdict | None:
    """Slurm itself has requeued the job and holds it, because it could not be launched: it waits for a person."""
    if facts.state_reason not in HELD:
        return None
    return Verdict(
        failure_class=C.SCHEDULER_LAUNCH,
        restart=Restart.AFTER_CHANGE,
        exclude=Exclude.IF_REPEATED,
        confidence=0.85,
        reason="Slurm could not launch the job and holds it; look at its nodes, then release it.",
    )


def _by_code(facts: AttemptFacts) -> Verdict:
    codes = {code for code in (facts.exit_code, *facts.step_exit_codes) if code}
    signals = {code - 128 for code in codes if 128 < code < 160} | ({facts.exit_signal} if facts.exit_signal else set())
    if 11 in signals:
        return Verdict(
            failure_class=C.USER_CODE,
            restart=Restart.ONCE,
            exclude=Exclude.IF_REPEATED,
            confidence=0.5,
            reason="A process ended with a segmentation fault; the log says nothing more.",
        )
    if NVRX_NO_RESTART in codes:
        return Verdict(
            failure_class=C.UNKNOWN,
            restart=Restart.NO,
            confidence=0.7,
            reason="NVRx's launcher ended with 93, its word that the job must not be restarted: no progress over "
            "several tries, or a cause that stays. Its own log says which.",
        )
    if 2 in signals:
        return Verdict(
            failure_class=C.EXTERNAL_CANCEL,
            restart=Restart.NO,
            confidence=0.7,
            reason="A process was interrupted (SIGINT), as a person does who no longer wants it.",
        )
    for code in sorted(codes & NOT_RUN.keys()):
        return Verdict(
            failure_class=C.LAUNCH_CONFIG,
            restart=Restart.AFTER_CHANGE,
            confidence=0.7,
            reason=f"The batch script ended with {code}: {NOT_RUN[code]}.",
        )
    if facts.exit_signal == NO_OUTPUT and facts.last_step is None:
        return Verdict(
            failure_class=C.LAUNCH_CONFIG,
            restart=Restart.AFTER_CHANGE,
            confidence=0.7,
            reason="Slurm could not set up the job's output (0:53): usually the folder of its log can't be written to.",
        )
    if 9 in signals:
        return _unknown("A process was killed (SIGKILL): by the memory limit or from outside; nothing says which.", 0.4)
    if facts.state is JobState.UNKNOWN and not codes and not signals:
        return _unknown("Nothing that was read says how the job ended.", 0.2)
    what = f"signal {min(signals)}" if signals else f"exit code {min(codes)}" if codes else "no exit code"
    return _unknown(f"The job ended with {what}, and nothing that was read says why.", 0.3)


def _unknown(reason: str, confidence: float) -> Verdict:
    return Verdict(failure_class=C.UNKNOWN, restart=Restart.ONCE, confidence=confidence, reason=reason)
