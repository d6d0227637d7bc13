"""What was looked for, what was found, and what could not be seen: a verdict is only as good as its view."""

from __future__ import annotations

from recovery.core.diagnose.clues import Clues
from recovery.core.speech import steps
from recovery.core.types import AttemptFacts, CheckpointState, JobState, SignalKind

MOST_SPANS = 6


def coverage(facts: AttemptFacts, clues: Clues) -> dict[str, str]:
    """Kind of fact → one clause on what was found or not."""
    return {
        "scheduler": _scheduler(facts),
        "job log": _log(facts, clues),
        "ranks": _ranks(facts),
        "node events": _nodes(facts, clues),
        "checkpoints": _checkpoints(facts),
        "GPU counters": _gpus(facts),
    }


def _scheduler(facts: AttemptFacts) -> str:
    if facts.state is JobState.UNKNOWN:
        return "no record of the job"
    parts = [f"state {facts.state}"]
    if facts.exit_signal:
        parts.append(f"signal {facts.exit_signal}")
    elif facts.exit_code is not None:
        parts.append(f"exit code {facts.exit_code}")
    if facts.state_reason not in ("", "None"):
        parts.append(f"reason {facts.state_reason}")
    if not facts.step_exit_codes:
        parts.append("exit codes of the steps not known")
    return ", ".join(parts)


def _log(facts: AttemptFacts, clues: Clues) -> str:
    if facts.blind_reason:
        return f"not seen: {facts.blind_reason}"
    if not facts.signals and facts.last_step is None:
        return "nothing that we know was found in it"
    found = sum(s.kind is SignalKind.FAILURE for s in facts.signals)
    parts = [_count(found, "failure line")]
    if clues.overcome:
        parts.append(f"{clues.overcome} of them followed by further training and not counted")
    parts.append(f"last step {steps(facts.last_step)}" if facts.last_step is not None else "no step reported")
    return ", ".join([*parts, *_sources(facts)])


def _sources(facts: AttemptFacts) -> list[str]:
    """Whose word it is: of how many files."""
    files = len({s.file for s in facts.signals})
    return [f"{files} files"] * (files > 1)


def _ranks(facts: AttemptFacts) -> str:
    """Of which ranks something was read, and of which nothing: their logs may be elsewhere, or they were silent."""
    named = {s.rank for s in facts.signals if s.rank is not None} | {s.rank for s in facts.samples if s.rank >= 0}
    there_are = facts.ranks if facts.ranks is not None else facts.gpus
    if there_are is None:
        return f"lines of {_spans(named)} read; how many there are is not known" if named else "no line names one"
    presumed = ", if each GPU has one" if facts.ranks is None else ""
    if not named:
        return f"no line names one of the {steps(there_are)}{presumed}"
    if silent := set(range(there_are)) - named:
        return f"lines of {_spans(named)} read, of {steps(there_are)}; nothing of {_spans(silent)}{presumed}"
    return f"lines of all {steps(there_are)} read{presumed}"


def _spans(ranks: set[int]) -> str:
    """ "rank 3", "ranks 0-7, 12": the first few runs of numbers, and how many ranks there are beyond."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans[:MOST_SPANS])
    beyond = sum(last - first + 1 for first, last in spans[MOST_SPANS:])
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {shown}{f' and {steps(beyond)} more' if beyond else ''}"


def _nodes(facts: AttemptFacts, clues: Clues) -> str:
    if not facts.nodes:
        return "the job's nodes are not known"
    nodes = f"the job's {_count(len(facts.nodes), 'node')}"
    if facts.node_events:
        outlived = f", {clues.outlived} of them long before its last steps and not counted" if clues.outlived else ""
        return f"{_count(len(facts.node_events), 'event')} of {nodes}{outlived}"
    return f"none for {nodes}; that proves nothing unless their kernel logs arrive here"


def _checkpoints(facts: AttemptFacts) -> str:
    if not facts.checkpoints:
        return "none seen"
    complete = [c.step for c in facts.checkpoints if c.state is CheckpointState.COMPLETE]
    gone = sum(c.state is CheckpointState.MISSING for c in facts.checkpoints)
    other = len(facts.checkpoints) - len(complete) - gone
    parts = [f"newest complete: step {steps(complete[-1])}" if complete else "none is complete"]
    if other:
        parts.append(f"{other} more not complete")
    if gone:
        parts.append(f"{gone} no longer there")
    return ", ".join(parts)


def _gpus(facts: AttemptFacts) -> str:
    gpu = facts.gpu
    if gpu is None:
        return "no readings lately; they come from a Prometheus, where the cluster names one"
    parts = [f"of {_count(gpu.nodes, 'node')}"]
    if gpu.utilisation is not None:
        parts.append(f"{gpu.utilisation:.0f} % busy on the mean")
    if gpu.power_w is not None:
        usual = f", usually {gpu.usual_power_w:.0f} W" if gpu.usual_power_w is not None else ""
        parts.append(f"{gpu.power_w:.0f} W each{usual}")
    parts += [f"Xid {code} on {node}" for node, code in gpu.xids[:3]]
    return ", ".join(parts)


def _count(number: int, one: str) -> str:
    return f"{steps(number)} {one}{'' if number == 1 else 's'}"
