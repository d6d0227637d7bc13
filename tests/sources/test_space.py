from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.sources.checkpoints.space import Mount, left_of, mount_of, room_in, run_command

KIB = 1024
LUSTRE = "     /lustre  900000  0 1000000       -    1200       0       0       -\n"
LUSTRE_LONG = "     /lustre/very/long/mount/point\n  1000001*  0 1000000       -    1200       0       0       -\n"
QUOTA = """Disk quotas for user bob (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
server:/home  250000  300000  400000       0    1200       0       0       0
"""
MOUNTS = """22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
40 22 0:44 / /lustre rw,noatime shared:9 - lustre 10.0.0.1@tcp:/fs rw,flock
41 22 0:45 / /a\\040b rw - nfs4 server:/home rw
"""


@pytest.mark.parametrize(
    ("output", "left"),
    [
        (LUSTRE, 100_000 * KIB),
        (LUSTRE_LONG, 0),
        (QUOTA, 150_000 * KIB),
        (QUOTA.replace("400000", "0"), 50_000 * KIB),  # only a soft limit
        (LUSTRE.replace("1000000", "0"), None),  # no limit
        ("Disk quotas for user bob (uid 1000): none\n", None),
        ("", None),
        ("Permission denied.\n", None),
    ],
)
def test_what_a_quota_leaves(output: str, left: int | None) -> None:
    assert left_of(output) == left


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_no_output_of_a_command_breaks_it(output: str) -> None:
    left_of(output)
    mount_of(0, output)


def test_the_mount_of_a_device() -> None:
    assert mount_of(44, MOUNTS) == Mount(point="/lustre", kind="lustre")
    assert mount_of(45, MOUNTS) is None  # a path with blanks is not handed to a command
    assert mount_of(99, MOUNTS) is None


def test_free_space_of_a_folder(tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> str:
        asked.append(command)
        return QUOTA

    room = room_in(str(tmp_path), user="bob", roots=[str(tmp_path)], setting="ROOTS", run=run)
    assert room.free_bytes is not None
    assert room.free_bytes > 0
    assert room.quota_bytes == (150_000 * KIB if asked else None)


def test_outside_of_the_roots_nothing_is_asked(tmp_path: Path) -> None:
    room = room_in("/", user="bob", roots=[str(tmp_path)], setting="ROOTS", run=lambda command: pytest.fail("asked"))
    assert (room.free_bytes, room.quota_bytes) == (None, None)


def test_a_user_that_looks_like_an_option_is_not_handed_to_a_command(tmp_path: Path) -> None:
    room = room_in(
        str(tmp_path), user="-x", roots=[str(tmp_path)], setting="R", run=lambda command: pytest.fail("asked")
    )
    assert room.quota_bytes is None


def test_a_command_that_is_not_there_says_nothing() -> None:
    assert run_command(["recovery-no-such-command"]) == ""
