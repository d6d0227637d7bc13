"""Broken logs, metrics and checkpoints through the whole path into the database: no look and no upkeep fails of them.

Each run takes fresh seeds; a failure names its own. With FUZZ_ROUNDS=200 in the environment it goes on longer.
"""

from __future__ import annotations

import json
import os
import random
import secrets
from datetime import timedelta
from pathlib import Path

import pytest

from recovery.models import LogFile, Upkeep
from recovery.pipeline import upkeep
from tests.core.logs.test_bytes import CORPUS
from tests.core.logs.test_fuzz import broken
from tests.pipeline.conftest import Desk

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "3"))
LOOKS = 12
CELLS = (
    "1", "2e5", "-1", "nan", "1e308", "-1e99", "1e-320", "9" * 20, "1700000000", "0001-01-01T00:00:00+14:00", "step",
    "save_durable", "loaded", "failure", "/a", "/a\0b", "x" * 2000, "\ud800",
)  # fmt: skip
COLUMNS = ("step", "loss", "time", "kind", "path", "rank")
FOLDERS = ("step-5", "global_step7", "latest", "checkpoint-9", "epoch=1-step=3.ckpt", "\udcff-step=4.ckpt")


def some_csv(dice: random.Random) -> bytes:
    rows = [COLUMNS, *([dice.choice(CELLS) for _ in COLUMNS] for _ in range(30))]
    return "".join(",".join(row) + "\n" for row in rows).encode("utf-8", "surrogatepass")


def some_json(dice: random.Random) -> bytes:
    odd = (*CELLS, None, True, [1], 1e300, -1e12, 3)
    rows = ({name: dice.choice(odd) for name in COLUMNS} for _ in range(30))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_something(desk: Desk, dice: random.Random) -> None:
    name = dice.choice(("a.out", "b.out", "m1.csv", "m2.csv"))
    logs = [CORPUS[dice.choice(sorted(CORPUS))] for _ in range(2)]
    data = broken(dice, *logs) if name.endswith(".out") else dice.choice((some_csv, some_json))(dice)
    path = desk.folder / name
    with path.open(dice.choice(("ab", "ab", "wb"))) as file:
        file.write(data)
    if dice.random() < 0.1:
        path.rename(f"{path}.1")
    if dice.random() < 0.3:
        desk.checkpoints.mkdir(exist_ok=True)
        (desk.checkpoints / dice.choice(FOLDERS)).write_bytes(dice.randbytes(dice.randrange(80)))


def lines_are_counted(row: LogFile) -> bool:
    path = Path(row.path)
    if not path.exists() or path.stat().st_ino != row.inode or path.stat().st_size < row.offset:
        return True
    return path.read_bytes()[: row.offset].count(b"\n") == row.line


@pytest.mark.parametrize("_", range(ROUNDS))
def test_nothing_that_a_job_writes_makes_a_look_or_the_upkeep_fail(desk: Desk, _: int) -> None:
    seed = secrets.randbits(48)
    dice = random.Random(seed)
    files = {"log": f"{desk.folder}/*.out", "metrics": f"{desk.folder}/m*.csv", "checkpoint_dir": str(desk.checkpoints)}
    desk.submit(comment=json.dumps({"recovery": files}))
    desk.start()
    for _look in range(LOOKS):
        write_something(desk, dice)
        desk.tick(seconds=dice.choice((2, 20, 200)))
        assert "Looking at it failed" not in desk.attempt.blind_reason, f"seed {seed}: {desk.attempt.blind_reason}"
    assert all(lines_are_counted(row) for row in LogFile.objects.filter(path__endswith=".out")), f"seed {seed}"
    desk.now += timedelta(hours=1)
    for pk in upkeep.due(desk.now):
        upkeep.keep(pk, clock=lambda: desk.now)
    assert set(Upkeep.objects.values_list("error", flat=True)) == {""}, f"seed {seed}"
