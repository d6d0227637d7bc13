from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from recovery.core.checkpoints import Saved
from recovery.core.outlook import Outlook, foresee, size
from recovery.core.types import CheckpointState

C = CheckpointState
GB = 10**9
NOW = datetime(2026, 1, 1, 14, 12, tzinfo=UTC)


def saved(step: int, state: CheckpointState = C.COMPLETE, *, removed: bool = False) -> Saved:
    """Every 100 steps, ten minutes; step 1000 was saved at 14:10."""
    at = datetime(2026, 1, 1, 14, 10, tzinfo=UTC) + timedelta(minutes=(step - 1000) / 10)
    return Saved(step=step, at=at, state=state, size_bytes=210 * GB, removed=removed)


ROTATED = [saved(700, removed=True), saved(800, removed=True), saved(900), saved(1000)]
ALL_KEPT = [saved(800), saved(900), saved(1000)]


def see(history: list[Saved], free: float | None = 9000, quota: float | None = None, *, saving: bool = True) -> Outlook:
    """`free` and `quota` in GB."""
    free_bytes, quota_bytes = (None if each is None else int(each * GB) for each in (free, quota))
    return foresee(history, free_bytes=free_bytes, quota_bytes=quota_bytes, now=NOW, saving=saving)


def space(found: Outlook) -> str:
    return found.space.text if found.space else ""


def test_a_save_that_will_not_fit_is_told_before_it_is_due() -> None:
    found = see(ROTATED, free=80)
    assert space(found) == "The next save needs 210 GB, 80 GB are free: it fails at about 14:20 UTC."
    assert found.space is not None
    assert found.space.remedy.startswith("Make room for 210 GB")


def test_the_quota_counts_where_it_is_less_than_what_is_free() -> None:
    assert "80 GB are left of the quota" in space(see(ROTATED, quota=80))
    assert "80 GB are free" in space(see(ROTATED, free=80, quota=90))


def test_where_rotation_makes_room_one_fitting_save_is_enough() -> None:
    assert space(see(ROTATED, free=211)) == ""
    assert space(see(ROTATED, free=209)) != ""


def test_where_nothing_is_removed_it_is_told_a_few_saves_ahead() -> None:
    assert space(see(ALL_KEPT, free=3 * 210)) == ""
    assert "2 more saves fit, the one after, at about 14:40 UTC, fails" in space(see(ALL_KEPT, free=3 * 210 - 1))
    assert "one more save fits, the one after, at about 14:30 UTC, fails" in space(see(ALL_KEPT, free=211))


def test_a_save_that_is_late_is_not_foretold_for_the_past() -> None:
    late = foresee(ROTATED, free_bytes=0, quota_bytes=None, now=NOW + timedelta(hours=1))
    assert "15:12 UTC" in space(late)


def test_without_a_size_or_a_look_at_the_file_system_nothing_is_foretold() -> None:
    assert space(see(ROTATED, free=None)) == ""
    assert space(see([saved(900, C.TORN)], free=0)) == ""


def test_a_first_checkpoint_tells_what_is_needed_but_not_when() -> None:
    assert space(see([saved(1000)], free=1)) == "The next save needs 210 GB, 1.0 GB are free: it will fail."


def test_nothing_is_foretold_for_a_run_that_writes_no_more() -> None:
    found = see([saved(800, removed=True), saved(900), saved(1000, C.TORN)], free=0, saving=False)
    assert (found.space, found.rotation) == (None, None)


def test_rotation_that_removes_the_last_complete_one_is_noticed() -> None:
    found = see([saved(700, removed=True), saved(800), saved(900, C.TORN), saved(1000, C.TORN)])
    assert found.rotation is not None
    assert found.rotation.text == (
        "Step 800 is the last complete checkpoint; 1\u202f000 and 900 are not. 3 are kept, so the next save, at about "
        "14:20 UTC, removes it."
    )


def test_the_last_complete_one_stays_where_more_are_kept() -> None:
    assert see([saved(600, removed=True), saved(700), saved(800), saved(900, C.TORN)]).rotation is None


def test_keeping_only_the_newest_is_no_alarm_while_it_is_whole() -> None:
    assert see([saved(900, removed=True), saved(1000)]).rotation is None
    assert see([saved(900, removed=True), saved(1000), saved(1100, C.ANNOUNCED)]).rotation is None


def test_a_complete_milestone_is_never_removed() -> None:
    history = [saved(600), saved(700, removed=True), saved(800), saved(900, C.TORN)]
    assert see(history).rotation is None


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 kB"),
        (999_900, "1.0 MB"),
        (210 * GB, "210 GB"),
        (10**18, "1000 PB"),
    ],
)
def test_sizes_read_in_decimal_units(count: int, text: str) -> None:
    assert size(count) == text
