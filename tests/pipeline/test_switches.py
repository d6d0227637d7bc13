"""Which switch a node hangs on: asked for with the health, kept in between; what fails below one is one outbreak."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery.models import Cluster, Incident, Node, Outbreak
from recovery.pipeline import reconcile
from recovery.pipeline.poll import HEALTH_EVERY
from recovery.slurm.base import Operation, SlurmUnreachable
from tests.pipeline.conftest import START, Desk
from tests.pipeline.polling import poll
from tests.slurm.fake_slurm import JOB, FakeSlurm, squeue_answer

LEAVES = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}
LATER = HEALTH_EVERY.total_seconds() + 1


@pytest.fixture
def wired(desk: Desk) -> Desk:
    desk.slurm.switch_table = dict(LEAVES)
    poll(desk)
    return desk


def stored() -> dict[str, str]:
    return dict(Node.objects.values_list("name", "switch"))


def test_switches_are_stored_and_kept_without_another_question(wired: Desk) -> None:
    assert stored() == LEAVES
    wired.slurm.asked.clear()
    wired.slurm.lose_node("n1")
    poll(wired)
    assert "topology" not in wired.slurm.asked
    assert stored() == LEAVES


def test_with_the_next_health_they_are_what_slurm_says_then(wired: Desk) -> None:
    wired.slurm.switch_table = {"n1": "leaf2", "n5": "leaf9"}
    poll(wired, seconds=LATER)
    assert stored() == {"n1": "leaf2", "n2": "", "n3": "", "n4": ""}


def test_what_can_not_be_read_spoils_no_picture_and_stays_as_it_was(
    wired: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> dict[str, str]:
        raise SlurmUnreachable("timed out", tried="scontrol show topology")

    monkeypatch.setattr(wired.slurm, "topology", silent)
    assert poll(wired, seconds=LATER).observed
    assert stored() == LEAVES
    assert Cluster.objects.get().error == ""


def test_what_the_back_end_has_not_is_not_known(wired: Desk) -> None:
    wired.slurm.denied = {Operation.TOPOLOGY}
    wired.slurm.asked.clear()
    poll(wired, seconds=LATER)
    assert "topology" not in wired.slurm.asked
    assert set(stored().values()) == {""}


def test_a_list_of_nodes_that_tells_it_needs_no_question(desk: Desk) -> None:
    for name, leaf in LEAVES.items():
        desk.slurm.change_node(name, switch=leaf)
    poll(desk)
    assert "topology" not in desk.slurm.asked
    assert stored() == LEAVES


def test_the_same_switches_write_nothing(wired: Desk) -> None:
    poll(wired)
    with CaptureQueriesContext(connection) as captured:
        poll(wired, seconds=LATER)
    assert not [query["sql"] for query in captured if "UPDATE" in query["sql"] and "recovery_node" in query["sql"]]


# --- by Slurm's commands ----------------------------------------------------------------------------------------------

SCONTROL = """
case "$*" in
"show config") cat {folder}/config.txt ;;
"show topology") cat {folder}/topology.txt ;;
*reservation) echo "No reservations in the system" ;;
*partition) cat {folder}/partitions.txt ;;
*) echo "Invalid job id specified" >&2; exit 1 ;;
esac
"""
RECORDED = Path(__file__).parents[1] / "slurm" / "recorded" / "22.05"
ON = {"11": "n1", "12": "n2", "13": "n1,n2", "14": "n3"}  # job → nodes: the last one is below the other leaf
DEAD = {"n1", "n2"}


class ByCommands:
    """A cluster of four nodes as its commands tell it; its topology is a real one's answer."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk = desk
        self.slurm = FakeSlurm(folder)
        self.client = self.slurm.client()
        self.failed: dict[str, str] = {}
        self.slurm.answers(SCONTROL.format(folder=RECORDED), "scontrol")

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.desk.now += timedelta(seconds=2)
            self._show()
            reconcile.tick(client_for=lambda cluster: self.client, clock=lambda: self.desk.now)

    def lose_the_leaf(self) -> None:
        now = f"{self.desk.now:%Y-%m-%dT%H:%M:%S}"
        self.failed = {job: now for job, nodes in ON.items() if set(nodes.split(",")) & DEAD}

    def _show(self) -> None:
        rows = []
        for job, nodes in ON.items():
            row = JOB._replace(
                raw_id=job, array_id=job, nodes=nodes, node_count=str(len(nodes.split(","))), name=f"train-{job}",
                submitted=f"{START:%Y-%m-%dT%H:%M:%S}", start=f"{START + timedelta(seconds=1):%Y-%m-%dT%H:%M:%S}",
                end="N/A", requeue="0", work_dir=str(self.slurm.folder),
            )  # fmt: skip
            ended = {"state": "NODE_FAIL", "reason": "NodeDown", "end": self.failed.get(job, "")}
            rows.append(row._replace(**ended) if job in self.failed else row)
        self.slurm.prints(squeue_answer(*rows), "squeue")
        entries = [_node(name, down=bool(self.failed) and name in DEAD) for name in LEAVES]
        self.slurm.prints(json.dumps({"errors": [], "nodes": entries}), "sinfo")


def _node(name: str, *, down: bool) -> dict[str, object]:
    return {
        "name": name, "state": "down" if down else "allocated", "state_flags": [], "partitions": ["main"],
        "reason": "Not responding" if down else "", "reason_changed_at": 0, "reason_set_by_user": None,
        "active_features": "", "gres": "gpu:8",
    }  # fmt: skip


def test_jobs_that_fail_below_one_switch_are_one_outbreak_of_a_cluster_that_is_read_by_commands(
    desk: Desk, tmp_path: Path
) -> None:
    folder = tmp_path / "commands"
    folder.mkdir()
    cluster = ByCommands(desk, folder)
    cluster.tick(times=3)
    assert stored() == LEAVES
    cluster.lose_the_leaf()
    cluster.tick(times=15)
    outbreak = Outbreak.objects.get()
    assert Incident.objects.filter(outbreak=outbreak).count() == 3
    assert (outbreak.runs, outbreak.shared[0]["kind"], outbreak.shared[0]["what"]) == (3, "switch", "leaf1")
    assert "all 3 had nodes on switch leaf1" in outbreak.headline
    assert cluster.slurm.calls.count(["scontrol", "show", "topology"]) == 1
