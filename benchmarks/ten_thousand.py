"""`manage.py simulate` on ten thousand jobs at a time: ten virtual minutes of the whole path, poll and all.

In a process of its own, as its memory is part of the figure. `held` tells that it came out as the scenario expects.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]
FILE = TOP / "scenarios" / "large" / "ten-thousand.toml"


def run() -> dict[str, object]:
    command = [sys.executable, str(TOP / "manage.py"), "simulate", str(FILE), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    played = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    story = json.loads(played.stdout)
    return {
        "jobs": len(story["jobs"]),
        "virtual_s": story["virtual_s"],
        "wall_s": story["wall_s"],
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_mb": round(after.ru_maxrss / 1000, 1),
        "incidents": len(story["incidents"]),
        "held": story["held"],
        "differences": story["differences"][:10],
    }
