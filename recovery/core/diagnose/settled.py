"""Where no detector found anything: done, running well, running wrongly, or not to be seen."""

from __future__ import annotations

import math

from recovery.core.diagnose.scheduler import start_step
from recovery.core.diagnose.verdict import Verdict
from recovery.core.speech import steps
from recovery.core.types import (
    AttemptFacts,
    CheckpointState,
    FailureClass,
    JobState,
    Restart,
    Sample,
    SignalKind,
)

C = FailureClass
LOST_REPORTS = 3  # reports in a row without a loss, after as many with one, are no accident of printing


def settle_verdict(facts: AttemptFacts) -> Verdict:
    """The verdict on an attempt without a finding."""
    if verdict := _not_resumed(facts):
        return verdict
    if facts.state is JobState.UNKNOWN:
        return _by_log_alone(facts)
    if facts.state is JobState.COMPLETED:
        text = "The job completed its work."
        return Verdict(failure_class=C.COMPLETED, restart=Restart.NO, confidence=0.95, reason=text)
    if facts.state is JobState.REVOKED:
        text = "Another cluster of the federation has the job: nothing of it ran here."
        return Verdict(failure_class=C.NOT_A_FAILURE, restart=Restart.NO, confidence=0.95, reason=text)
    if facts.blind_reason:
        text = f"The job can't be observed: {facts.blind_reason.rstrip('.')}."
        return Verdict(failure_class=C.UNKNOWN, restart=Restart.NO, confidence=0.3, reason=text)
    if facts.state is JobState.RUNNING and loss_vanished(facts.samples):
        text = "The loss is not a number any more, while the steps count on."
        return Verdict(failure_class=C.NUMERICS, restart=Restart.AFTER_CHANGE, confidence=0.8, reason=text)
    if facts.state is JobState.RUNNING and gradient_lost(facts):
        text = "The gradient is not a number in any of the last reports, while the steps count on."
        return Verdict(failure_class=C.NUMERICS, restart=Restart.AFTER_CHANGE, confidence=0.75, reason=text)
    text = f"Nothing is wrong with the job as far as can be seen; it is {facts.state}."
    return Verdict(failure_class=C.NOT_A_FAILURE, restart=Restart.NO, confidence=0.9, reason=text)


def _by_log_alone(facts: AttemptFacts) -> Verdict:
    if any(s.kind is SignalKind.FINISHED for s in facts.signals):
        text = "The trainer says that it finished, and nothing in its log speaks of a failure."
        return Verdict(failure_class=C.COMPLETED, restart=Restart.NO, confidence=0.7, reason=text)
    text = "Nothing that was read speaks of a failure, and there is no record that says how the job stands."
    return Verdict(failure_class=C.UNKNOWN, restart=Restart.NO, confidence=0.3, reason=text)


def loss_vanished(samples: tuple[Sample, ...]) -> bool:
    """Whether the last reports carry no finite loss, where those before them did.

    Megatron leaves the field out of the line when the loss is NaN, so a missing one counts like a NaN.
    """
    last, before = samples[-LOST_REPORTS:], samples[:-LOST_REPORTS]
    if len(last) < LOST_REPORTS or any(_finite(s) for s in last):
        return False
    return sum(_finite(s) for s in before) >= LOST_REPORTS


def gradient_lost(facts: AttemptFacts) -> bool:
    """Whether the last reports carry a gradient norm that is no number, where as many before them did not.

    Some trainers print a loss of 0.0 then. A few such reports at the start are a loss scale that is being found.
    """
    lines = [(s.file, s.line) for s in facts.signals if s.kind is SignalKind.PROGRESS]
    lost = {(s.file, s.line) for s in facts.signals if s.rule == "numerics.gradient"}
    last, before = lines[-LOST_REPORTS:], lines[:-LOST_REPORTS]
    if len(last) < LOST_REPORTS or sum(line not in lost for line in before) < LOST_REPORTS:
        return False
    file, first = last[0]
    return sum(where == file and line >= first for where, line in lost) >= LOST_REPORTS


def _finite(sample: Sample) -> bool:
    return sample.loss is not None and math.isfinite(sample.loss)


def _not_resumed(facts: AttemptFacts) -> Verdict | None:
    """It trains (or trained) at steps that a complete checkpoint has long passed: it began too early."""
    begun = start_step(facts)
    if begun is None or facts.last_step is None:
        return None
    if facts.checkpoints:
        known = [c.step for c in facts.checkpoints if c.state is CheckpointState.COMPLETE]
    else:  # an appended log tells of the saves of the attempt before
        known = [s.step for s in facts.signals if s.kind is SignalKind.SAVE_DURABLE and s.step is not None]
    newest = max(known, default=0)
    if newest <= max(begun, facts.last_step):
        return None
    where = f"from step {steps(begun)}" if begun else "from scratch"
    text = f"The job started {where} although the checkpoint of step {steps(newest)} is complete."
    return Verdict(failure_class=C.NOT_RESUMED, restart=Restart.AFTER_CHANGE, confidence=0.9, reason=text)
