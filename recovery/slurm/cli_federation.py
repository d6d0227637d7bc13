"""What squeue and scontrol say of a federation, asked for only where a job's id tells that there is one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from recovery.slurm.cli_squeue import Row, in_both, is_number
from recovery.slurm.federation import NO_ID, Place, is_of_one
from recovery.slurm.json_values import BadAnswer, clean

# Nothing of it is written by users, so a fixed separator does.
FORMAT = "--Format=JobID:0|,Cluster:0|,Origin:0|,SiblingsActive:0|"
SHOW = ("scontrol", "show", "federation")
_NUMBER = re.compile(r"^(Self|Sibling):\s+([^\s:]+)\S*\s+ID:([0-9]{1,2})\b", re.MULTILINE)
_LINE = re.compile(r"^(Federation|Self|Sibling):\s+([^\s:]+)(.*)$", re.MULTILINE)


class Told(NamedTuple):
    """As in Health: the federation that a cluster is in, the other clusters of it, those that are out of step."""

    name: str | None
    siblings: tuple[str, ...] = ()
    unsynced: tuple[str, ...] = ()


def with_ids(rows: Sequence[Row]) -> list[Row]:
    """Without the records whose id was taken away, since another cluster of the federation has the job."""
    return [row for row in rows if row.raw_id != str(NO_ID)]


def is_asked_for(rows: Sequence[Row]) -> bool:
    return any(is_of_one(row.raw_id) for row in rows)


def places(answer: str) -> dict[str, Place]:
    """The place of each job by its raw id. Raises BadAnswer."""
    found: dict[str, Place] = {}
    for line in clean(answer).splitlines():
        fields = line.split("|")
        if len(fields) != 5 or fields[4] or not is_number(fields[0]):
            raise BadAnswer(f"{line[:100]!r} is no job with its place in a federation")
        found[fields[0]] = Place(here=fields[1], origin=fields[2], active=fields[3])
    if answer and not answer.endswith("\n"):
        raise BadAnswer("it ends in the middle of a line")
    return found


def placed_rows(rows: Sequence[Row], answer: str) -> list[tuple[Row, Place]]:
    """Each job with its place, without those that left between the two questions. Raises BadAnswer."""
    found = places(answer)
    return [(row, found[row.raw_id]) for row in in_both(rows, found)]


def federation(answer: str) -> Told:
    """What `scontrol show federation` says; "" and none where there is none."""
    found = _LINE.findall(clean(answer))
    name = next((name for kind, name, _ in found if kind == "Federation"), "")
    siblings = {name: more for kind, name, more in found if kind == "Sibling"}
    return Told(name, tuple(siblings), tuple(name for name, more in siblings.items() if "Synced:No" in more))


def numbers(answer: str) -> tuple[str, dict[int, str]]:
    """This cluster's name, and the names of all by the numbers that they have in the federation."""
    found = _NUMBER.findall(clean(answer))
    here = next((name for kind, name, _ in found if kind == "Self"), "")
    return here, {int(number): name for _, name, number in found}
