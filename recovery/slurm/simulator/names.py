"""Slurm's patterns in the names of output files."""

from __future__ import annotations

import re

_PATTERN = re.compile(r"%(\d*)([%jJAxu])")


def expand(pattern: str, *, job_id: str, name: str, user: str) -> str:
    """`pattern` with %j, %J, %A, %x, %u and %% filled in; a number pads, as in %8j."""
    values = {"j": job_id, "J": job_id, "A": job_id, "x": name, "u": user, "%": "%"}

    def fill(found: re.Match[str]) -> str:
        return values[found[2]].zfill(min(int(found[1] or 0), 10))

    return _PATTERN.sub(fill, pattern)
