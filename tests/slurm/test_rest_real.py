"""A real slurmrestd: polls miss no change, tokens of each kind, a controller that goes and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from recovery.slurm.base import JobRecord, RightsLevel, SlurmClient, SlurmError, SlurmRefused, SlurmUnreachable
from recovery.slurm.rest_auth import ScontrolToken
from tests.slurm.rest_harness import client, jwt_options, lab_of, local_options

pytestmark = [pytest.mark.slurm, pytest.mark.slurmrestd]


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[SlurmLab]:
    lab = lab_of(request)
    yield lab
    lab.run("scancel", "--user=root")
    wait_until(lambda: not lab.run("squeue", "-h").split(), timeout_s=20)


def submit(lab: SlurmLab, folder: Path, script: str = "sleep 600") -> str:
    return lab.submit(f"#!/bin/sh\n{script}\n", work_dir=folder, options=["--output=/dev/null"])


class Poller:
    """Holds a picture as a caller would that believes "nothing has changed"."""

    def __init__(self, asks: SlurmClient) -> None:
        self._asks = asks
        self._mark = ""
        self.unchanged = 0
        self.held: dict[str, JobRecord] = {}

    def look(self) -> dict[str, JobRecord]:
        picture = self._asks.jobs_since(self._mark)
        self._mark = picture.mark
        if picture.jobs is None:
            self.unchanged += 1
        else:
            self.held = {job.job_id: job for job in picture.jobs}
        return self.held


def test_no_change_is_never_said_of_a_change(lab: SlurmLab, tmp_path: Path) -> None:
    """Right after each thing that can happen to a job, within the second in which the last picture was taken."""
    asks = client(local_options(lab))
    job = submit(lab, tmp_path)
    assert wait_until(lambda: asks.job(job).state is JobState.RUNNING, timeout_s=20)
    poller = Poller(asks)
    for change in (
        ("update", f"JobId={job}", "TimeLimit=30"),
        ("update", f"JobId={job}", "Comment=changed"),
        ("update", f"JobId={job}", "AdminComment=changed"),
        ("requeuehold", job),
        ("update", f"JobId={job}", "ExcNodeList=n1"),
        ("release", job),
        ("hold", job),
    ):
        poller.look()
        lab.run("scontrol", *change)
        # Asked again where it changes by itself between the two looks; a wrong "no change" would stay.
        assert wait_until(lambda: poller.look()[job] == asks.job(job), timeout_s=5), change
    short = submit(lab, tmp_path, "exit 3")
    assert wait_until(lambda: poller.look().get(short) == asks.job(short), timeout_s=5)
    assert wait_until(lambda: poller.look()[short].state is JobState.FAILED, timeout_s=20)


def test_what_rests_is_not_told_again(lab: SlurmLab, tmp_path: Path) -> None:
    held = lab.submit("#!/bin/sh\n", work_dir=tmp_path, options=["--hold", "--output=/dev/null"])
    for options in (local_options(lab), jwt_options(lab)):
        poller = Poller(client(options))

        def rests(poller: Poller = poller) -> bool:
            poller.look()
            return poller.unchanged >= 2

        assert wait_until(rests, timeout_s=10)
        assert poller.held[held].held


def test_a_wrong_token_observes_nothing_and_does_nothing(lab: SlurmLab, tmp_path: Path) -> None:
    job = submit(lab, tmp_path)
    wrong = client({"url": lab.rest_urls[1], "token": "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJyb290In0.d3Jvbmc"})
    for read in (wrong.jobs, wrong.nodes, wrong.partitions, wrong.health):
        with pytest.raises(SlurmError):
            read()
    with pytest.raises(SlurmError):
        wrong.hold(job)
    assert lab.run("squeue", "-h", "-j", job, "-o", "%r").strip() != "JobHeldAdmin"


def test_a_token_that_has_ended_is_replaced_in_its_file(lab: SlurmLab, tmp_path: Path) -> None:
    file = tmp_path / "token"
    asks = client({"url": lab.rest_urls[1], "token_file": str(file)})
    file.write_text(lab.run("scontrol", "token", "lifespan=1"))

    def is_refused() -> bool:
        try:
            asks.nodes()
        except SlurmError:
            return True
        return False

    assert wait_until(is_refused, timeout_s=20)
    file.write_text(lab.run("scontrol", "token", "lifespan=60"))
    assert asks.nodes()


def test_a_token_of_scontrol_serves_many_clients(lab: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScontrolToken, "_kept", {})
    for _ in range(3):
        assert client(jwt_options(lab)).rights().user == "root"
    assert len(ScontrolToken._kept) == 1


def test_a_user_without_rights_changes_nothing_of_others(lab: SlurmLab, tmp_path: Path) -> None:
    """The user that docs/slurmrestd.md makes a token for is judged by Slurm as that user."""
    job = submit(lab, tmp_path)
    asks = client(jwt_options(lab) | {"user": "nobody"})
    assert asks.rights().user == "nobody"
    assert asks.rights().level in (RightsLevel.OWN, RightsLevel.UNKNOWN)
    assert asks.job(job).job_id == job
    with pytest.raises(SlurmRefused, match=r"Access/permission denied|Invalid user id"):
        asks.hold(job)
    with pytest.raises(SlurmRefused, match=r"Access/permission denied|Invalid user id"):
        asks.set_time_limit(job, 600)


@pytest.fixture
def operator(lab: SlurmLab) -> Iterator[str]:
    """A user of this machine with the level that docs/slurmrestd.md asks for, for as long as the test takes."""
    sacctmgr, name = ("sacctmgr", "-i", "-Q"), "daemon"
    lab.run(*sacctmgr, "add", "account", "by-token")
    lab.run(*sacctmgr, "add", "user", name, "account=by-token", "adminlevel=operator")
    yield name
    lab.run(*sacctmgr, "delete", "user", name)
    lab.run(*sacctmgr, "delete", "account", "by-token")


@pytest.mark.accounting
def test_an_operators_token_is_enough_to_see_all_and_to_hold(lab: SlurmLab, operator: str, tmp_path: Path) -> None:
    job = submit(lab, tmp_path)
    asks, root = client(jwt_options(lab) | {"user": operator}), client(jwt_options(lab))
    rights = asks.rights()
    assert (rights.user, rights.level) == (operator, RightsLevel.OPERATOR)
    assert asks.health().release == root.health().release
    assert [node.name for node in asks.nodes()] == [node.name for node in root.nodes()]
    assert (asks.partitions(), asks.reservations()) == (root.partitions(), root.reservations())
    assert {known.job_id for known in asks.jobs()} == {known.job_id for known in root.jobs()}

    def holds() -> bool:
        try:
            asks.hold(job)
        except SlurmRefused:  # slurmctld hears of the level a moment later
            return False
        return True

    assert wait_until(holds, timeout_s=10)
    assert lab.run("squeue", "-h", "-j", job, "-o", "%r").strip() == "JobHeldAdmin"


def test_a_controller_that_is_gone_is_no_empty_cluster_and_comes_back(lab: SlurmLab, tmp_path: Path) -> None:
    local, jwt = client(local_options(lab)), client(jwt_options(lab))
    mark = local.jobs_since("").mark
    jwt.jobs()
    calls: list[Callable[[], object]] = [local.jobs, lambda: local.hold("1"), lambda: jwt.jobs_since(mark), jwt.nodes]
    lab.kill_controller()
    try:
        with ThreadPoolExecutor(len(calls)) as pool:  # Slurm itself tries for two seconds, each time
            outcomes = [pool.submit(call).exception(timeout=30) for call in calls]
    finally:
        lab.start_controller()
    assert [type(error) for error in outcomes] == [SlurmUnreachable] * len(calls)
    assert not any(error.permanent for error in outcomes if isinstance(error, SlurmError))
    assert local.nodes() == jwt.nodes()
    assert local.jobs_since(mark).jobs is not None
