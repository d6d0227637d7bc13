"""Room for the next checkpoint: what is free on the file system, and what the user's quota leaves.

Free space is one call on the open folder. A quota is asked for by the file system's own command (`lfs quota` on Lustre,
`quota` elsewhere), where that is installed and lets this account ask; each with a time limit, for it may hang as the
file system does. Quotas of groups and projects are not asked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recovery.sources.beneath import NotThere, Refused, open_folder

COMMAND_TIMEOUT_S = 5
_MOUNTS = Path("/proc/self/mountinfo")
_KIB = 1024

# The command's output, "" where there is none.
RunCommand = Callable[[Sequence[str]], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """Bytes; None where it can't be told."""

    free_bytes: int | None
    quota_bytes: int | None  # what the user may still write


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    point: str
    kind: str


def run_command(command: Sequence[str]) -> str:
    program = shutil.which(command[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *command[1:]], capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False,
            stdin=subprocess.DEVNULL, env={"LC_ALL": "C", "PATH": os.defpath},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def room_in(directory: str, *, user: str, roots: Sequence[str], setting: str, run: RunCommand = run_command) -> Room:
    """The room that `user` has in `directory`. Never raises on account of what is there."""
    try:
        at = open_folder(directory, roots=roots, setting=setting)
    except (NotThere, Refused, OSError):
        return Room(free_bytes=None, quota_bytes=None)
    try:
        found, device = os.fstatvfs(at), os.fstat(at).st_dev
    except OSError:
        return Room(free_bytes=None, quota_bytes=None)
    finally:
        os.close(at)
    mount = mount_of(device, _mounts())
    quota = _quota(mount, user, run) if mount is not None and user and not user.startswith("-") else None
    return Room(free_bytes=found.f_bavail * found.f_frsize, quota_bytes=quota)


def _mounts() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def mount_of(device: int, mountinfo: str) -> Mount | None:
    """The last mount of the device in /proc/self/mountinfo (proc(5)); None where there is none with a plain path."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = None
    for line in mountinfo.splitlines():
        words = line.split()
        if len(words) > 6 and words[2] == wanted and "-" in words and "\\" not in words[4]:
            found = Mount(point=words[4], kind=words[words.index("-") + 1])
    return found


def _quota(mount: Mount, user: str, run: RunCommand) -> int | None:
    if mount.kind == "lustre":
        return left_of(run(["lfs", "quota", "-q", "-u", user, mount.point]))
    return left_of(run(["quota", "-w", "-p", "-u", user, "-f", mount.point]))


def left_of(output: str) -> int | None:
    """Bytes left by the first row of numbers: used, soft and hard limit in KiB (`lfs quota`, `quota`).

    The hard limit counts, without one the soft one; 0 is none. A used amount over its limit is marked by "*". Lustre
    puts a long mount point on a line of its own. None: no limit, or no such row.
    """
    words = output.split()
    for place, word in enumerate(words[:-3]):
        numbers = [each.rstrip("*") for each in words[place + 1 : place + 4]]
        if not word.isdigit() and all(each.isascii() and each.isdigit() for each in numbers):
            used, soft, hard = (int(each) for each in numbers)
            limit = hard or soft
            return max(0, limit - used) * _KIB if limit else None
    return None
