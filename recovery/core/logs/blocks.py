"""Reports that trainers print over several lines: a head with the step, then one measured value per line.

The report is given out as one progress mark, with the values of its lines. Nothing ends it but what follows, which may
come much later or, in a hang, never. So a report is given out with the line whose name ended the report before it (all
reports of a log look alike), and the first one as soon as it has all that can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery.core.logs.fields import inverse, number
from recovery.core.logs.marks import Mark, Memory, step_of
from recovery.core.types import SignalKind

OPEN = "open"  # the key of a report that waits for lines; only then does a format want to see every line
_VALUES = ("loss", "throughput", "step_time_s", "tokens")


def begin(memory: Memory, rule: str, step: int | None) -> None:
    """A report with more lines begins. `step` is None where one of them will tell it."""
    memory[OPEN] = {"rule": rule, "step": step}


def take(memory: Memory, name: str, value: str, uses: Mapping[str, str]) -> Mark | None:
    """One line of the open report. `uses` says which names are wanted as what: step, loss, …, or steps_per_s.

    Returns the report's mark where this line completes it.
    """
    report: Memory = memory[OPEN]
    memory["last"] = name
    use = uses.get(name)
    if use == "step" and report["step"] is None:
        report["step"] = step_of(value) if value.isascii() and value.isdigit() else None
    elif use == "steps_per_s":
        report["step_time_s"] = inverse(number(value))
    elif use in _VALUES:
        report[use] = number(value)
    if report.get("given") or not _complete(memory, report, name):
        return None
    report["given"] = True
    return _mark(report)


def _complete(memory: Memory, report: Memory, name: str) -> bool:
    if "ends_with" in memory:
        return bool(memory["ends_with"] == name)
    return report["step"] is not None and all(value in report for value in ("loss", "throughput"))


def close(memory: Memory) -> Mark | None:
    """A line came that is none of the report. Returns its mark where it was not given out yet."""
    report: Memory | None = memory.pop(OPEN, None)
    if report is None:
        return None
    if "last" in memory:
        memory["ends_with"] = memory.pop("last")
    return None if report.get("given") else _mark(report)


def _mark(report: Memory) -> Mark | None:
    if report["step"] is None:
        return None
    values: dict[str, Any] = {name: report.get(name) for name in _VALUES}
    return Mark(kind=SignalKind.PROGRESS, rule=str(report["rule"]), step=report["step"], all_ranks=True, **values)
