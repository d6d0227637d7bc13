"""What two real clusters of one federation answered (tests/slurm/record_federation.py), read by each back end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recovery.core.types import JobState
from recovery.slurm import cli_federation, cli_jobs, cli_json, cli_squeue, federation, sacct, sacct_jobs
from recovery.slurm.base import JobNotFound, JobRecord, SlurmError, SlurmUnreachable
from recovery.slurm.cli import CliClient
from recovery.slurm.cli_federation import Told
from recovery.slurm.federation import Place
from recovery.slurm.json_values import BadAnswer
from tests.slurm import record
from tests.slurm.fake_slurm import JOB, FakeSlurm, squeue_answer
from tests.slurm.record_federation import FOLDER
from tests.slurm.rest_server import Asked, Said, Server, whole

S = JobState
DIAG = whole(statistics={"req_time": 1_796_000_000})
IDS = dict(line.split() for line in (FOLDER / "jobs.txt").read_text().splitlines())
SINCE = datetime(2020, 1, 1, tzinfo=UTC)


def read(name: str) -> str:
    return (FOLDER / name).read_text()


def by_text(cluster: str) -> list[JobRecord]:
    rows = cli_squeue.rows(read(f"{cluster}_squeue.txt"), record.SEPARATOR)
    excluded = cli_squeue.excluded_nodes(read(f"{cluster}_excluded.txt"))
    places = cli_federation.places(read(f"{cluster}_places.txt"))
    found = cli_federation.with_ids([row._replace(excluded=excluded[row.raw_id]) for row in rows])
    return [federation.placed(cli_jobs.record(r, allocated={}, reasons={}), places[r.raw_id]) for r in found]


def by_json(cluster: str) -> list[JobRecord]:
    return cli_json.parse_jobs(read(f"{cluster}_squeue.json"))


READS: Mapping[str, Callable[[str], list[JobRecord]]] = {"text": by_text, "json": by_json}


@pytest.fixture(params=READS)
def told(request: pytest.FixtureRequest) -> Callable[[str], dict[str, JobRecord]]:
    """The jobs of a cluster by their kind; each id comes once."""

    def tell(cluster: str) -> dict[str, JobRecord]:
        found = {job.job_id: job for job in READS[request.param](cluster)}
        assert len(found) == len(READS[request.param](cluster))
        return {kind: found[job_id] for kind, job_id in IDS.items() if job_id in found}

    return tell


def test_where_a_job_was_submitted_there_is_a_record_of_it_that_ran_nowhere(
    told: Callable[[str], dict[str, JobRecord]],
) -> None:
    jobs = told("fa")
    assert {kind: job.state for kind, job in jobs.items()} == {
        "failed": S.REVOKED, "running": S.REVOKED, "waiting": S.PENDING,
    }  # fmt: skip
    assert all((job.federated, job.origin, job.copy) == (True, "", False) for job in jobs.values())
    for kind, over in (("failed", True), ("running", False)):
        job = jobs[kind]
        assert (job.started_at, job.exit_code, job.nodes) == (None, None, ())
        assert (job.ended_at is not None) is over


def test_where_it_runs_it_tells_where_it_was_submitted(told: Callable[[str], dict[str, JobRecord]]) -> None:
    jobs = told("fb")
    assert {kind: (job.state, job.origin, job.copy) for kind, job in jobs.items()} == {
        "failed": (S.FAILED, "fa", False), "running": (S.RUNNING, "fa", False), "own": (S.RUNNING, "", False),
        "waiting": (S.PENDING, "fa", True),
    }  # fmt: skip
    assert (jobs["failed"].exit_code, len(jobs["running"].nodes)) == (3, 1)


def test_a_record_without_an_id_is_no_job_and_blinds_nobody() -> None:
    raw = json.loads(read("fa_squeue.json"))["jobs"]
    assert None in [job["job_id"] for job in raw]
    assert str(federation.NO_ID) in read("fa_places.txt")
    nameless = {"job_id": None, "job_state": "RUNNING"}
    with pytest.raises(BadAnswer):
        cli_json.parse_jobs(json.dumps({"jobs": [nameless], "errors": []}))


def test_accounting_says_of_a_job_that_another_cluster_has_that_it_never_started() -> None:
    here, there = (sacct.attempts_by_job(read(f"{name}_sacct.txt"), list(IDS.values())) for name in ("fa", "fb"))
    (tracked,), (ran,) = here[IDS["failed"]], there[IDS["failed"]]
    assert (tracked.state, tracked.started_at, tracked.exit_code) == (S.REVOKED, None, None)
    assert (ran.state, ran.exit_code) == (S.FAILED, 3)
    assert "--local" in sacct.arguments(["1"], since=SINCE)
    assert "--local" in sacct_jobs.arguments(SINCE, SINCE, ["JobID"], "~")


@pytest.mark.parametrize(
    ("raw_id", "state", "nodes", "never"),
    [
        ("67108873", S.FAILED, (), True),  # BadConstraints on one of several clusters
        ("67108873", S.FAILED, ("n1",), False),
        ("67108873", S.CANCELLED, (), False),
        ("4711", S.FAILED, (), False),
    ],
)
def test_a_copy_that_its_cluster_could_not_run_has_not_failed(
    raw_id: str, state: JobState, nodes: tuple[str, ...], never: bool
) -> None:
    assert federation.never_ran(raw_id, state, nodes=nodes) is never
    job = JobRecord(job_id=raw_id, name="x", user="ada", state=state, submitted_at=SINCE, nodes=nodes)
    placed = federation.placed(job, Place(here="fb", origin="fa", active="fb" if nodes else "NA"))
    assert (placed.state, placed.copy) == (state if nodes else S.REVOKED, not nodes)
    assert federation.placed(job, Place(here="lab", origin="", active="")) == job


@pytest.mark.parametrize("state", [S.RUNNING, S.COMPLETING, S.SUSPENDED, S.FAILED])
@pytest.mark.parametrize("active", ["NA", "fa", "fb"])
def test_what_runs_or_ran_here_is_never_overlooked(state: JobState, active: str) -> None:
    """Between two questions, and while two controllers agree, the list of places lags behind."""
    job = JobRecord(job_id="67108873", name="x", user="ada", state=state, submitted_at=SINCE, nodes=("n1",))
    placed = federation.placed(job, Place(here="fb", origin="fa", active=active))
    assert (placed.state, placed.origin, placed.copy, placed.nodes) == (state, "fa", False, ("n1",))
    with pytest.raises(BadAnswer, match="does not name this cluster"):
        federation.placed(job, Place(here="", origin="fa", active=active))


# --- questions -------------------------------------------------------------------------------------------------------


def test_the_commands_are_asked_for_places_only_where_ids_tell_of_a_federation(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.prints(squeue_answer(JOB), "squeue")
    assert not slurm.client().jobs()[0].federated
    assert [call[0] for call in slurm.calls] == ["squeue"]
    fed, gone = JOB._replace(raw_id="67108866"), JOB._replace(raw_id="67108867", state="PENDING")
    without = JOB._replace(raw_id=str(federation.NO_ID), state="REVOKED")
    long = tmp_path / "long"
    slurm.prints(squeue_answer(fed, gone, without), "squeue")
    long.write_text((tmp_path / "squeue").read_text())
    slurm.answers(f'case "$*" in *--Format=*) echo "67108866|fb|fa|fb|";; *) . {long};; esac', "squeue")
    (job,) = slurm.client().jobs()
    assert (job.job_id, job.origin, job.state) == ("67108866", "fa", S.RUNNING)


@pytest.mark.parametrize("told", ["", "67108867|fb|fa|NA|"])
@pytest.mark.parametrize("ask", [lambda client: client.jobs(), lambda client: client.job("67108866")])
def test_half_an_answer_of_places_loses_no_job(tmp_path: Path, told: str, ask: Callable[[CliClient], object]) -> None:
    slurm, long = FakeSlurm(tmp_path), tmp_path / "long"
    slurm.prints(squeue_answer(JOB._replace(raw_id="67108866")), "squeue")
    long.write_text((tmp_path / "squeue").read_text())
    slurm.answers(f'case "$*" in *--Format=*) {told and f"echo {told!r}"};; *) . {long};; esac', "squeue")
    with pytest.raises(SlurmUnreachable, match="in one list"):
        ask(slurm.client())


def test_a_copy_that_leaves_between_two_lists_spoils_neither() -> None:
    runs, copy = JOB._replace(raw_id="67108866"), JOB._replace(raw_id="67108867", state="PENDING")
    assert cli_squeue.with_excluded([runs, copy], {"67108866": ""}) == [runs]
    for told in ({"67108867": ""}, {}):
        with pytest.raises(BadAnswer):
            cli_squeue.with_excluded([runs, copy], told)
    with pytest.raises(BadAnswer):
        cli_squeue.with_excluded([copy], {})


def test_records_without_ids_alone_are_an_empty_list_that_needs_no_other_word(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.prints(squeue_answer(JOB._replace(raw_id=str(federation.NO_ID), state="REVOKED")), "squeue")
    slurm.answers("exit 1", "scontrol")
    assert slurm.client().jobs() == []


READ_CALLS: list[Callable[[CliClient], object]] = [
    lambda client: client.jobs(), lambda client: client.job("12"), lambda client: client.nodes(),
    lambda client: client.partitions(), lambda client: client.reservations(),
    lambda client: client.attempts(["12"], since=SINCE), lambda client: client.ended_between(SINCE, SINCE),
]  # fmt: skip


@pytest.mark.parametrize("read_call", READ_CALLS)
def test_every_read_asks_for_this_cluster_alone(tmp_path: Path, read_call: Callable[[CliClient], object]) -> None:
    """With FederationParameters=fed_display Slurm's commands would tell of all clusters."""
    slurm = FakeSlurm(tmp_path)
    slurm.prints("")
    with suppress(SlurmError):
        read_call(slurm.client())
    slurm.prints(squeue_answer(JOB._replace(state="COMPLETING")), "squeue")
    with suppress(SlurmError):
        read_call(slurm.client())
    asked = [call for call in slurm.calls if "--helpformat" not in call]
    assert asked
    assert all("--local" in call for call in asked), asked


@pytest.mark.parametrize("answer", ["67108866|fb|fa|fb", "67108866|fb|fa|fb|\n1|2|\n", "x|fb|fa|fb|\n"])
def test_places_that_are_half_said_are_no_answer(answer: str) -> None:
    with pytest.raises(BadAnswer):
        cli_federation.places(answer)


def test_a_federation_is_named_with_its_other_clusters() -> None:
    told = read("fa_federation.txt")
    down = "Sibling:    fb::0 ID:2 FedState:ACTIVE Features: PersistConnSend/Recv:No/No"
    assert cli_federation.federation(told) == Told("fed", ("fb",))
    head, _, _ = told.partition("Sibling")
    assert cli_federation.federation(f"{head}{down} Synced:No\n") == Told("fed", ("fb",), unsynced=("fb",))
    assert cli_federation.federation("scontrol: No federation\n") == Told("")


@pytest.mark.parametrize(("cluster", "origin"), [("fa", ""), ("fb", "fa"), ("", "number 1")])
def test_of_a_job_that_only_accounting_knows_the_id_tells_where_it_was_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str, origin: str
) -> None:
    """Else it would be submitted again, after an outage, beside the cluster that has it."""
    job = JobRecord(job_id="67108865", raw_id="67108865", name="x", user="ada", state=S.FAILED, submitted_at=SINCE)
    older = JobRecord(job_id="4711", raw_id="4711", name="x", user="ada", state=S.FAILED, submitted_at=SINCE)
    monkeypatch.setattr(sacct_jobs, "ended", lambda *_, **__: [job, older])
    slurm = FakeSlurm(tmp_path)
    slurm.prints("")
    slurm.prints(read(f"{cluster}_federation.txt") if cluster else "", "scontrol")
    found, of_none = slurm.client().ended_between(SINCE, SINCE)
    assert (found.federated, found.origin) == (True, origin)
    assert of_none == older
    slurm.answers("exit 1", "scontrol")
    with pytest.raises(SlurmError):
        slurm.client().ended_between(SINCE, SINCE)


def test_that_nothing_is_told_of_a_federation_is_not_that_there_is_none(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    slurm.answers("exit 1", "scontrol")
    assert slurm.client().federation() == Told(None)
    slurm.prints(read("fa_federation.txt"), "scontrol")
    assert slurm.client().federation() == Told("fed", ("fb",))


# --- slurmrestd ------------------------------------------------------------------------------------------------------


def answers(server: Server, cluster: str) -> None:
    """As slurmrestd 22.05; by an id it gives the records of all clusters."""

    def say(asked: Asked) -> Said:
        name = "rest_jobs" if asked.path.endswith("/jobs") else "rest_job"
        return Said(body=read(f"{cluster}_{name}.json").encode())

    server.begin(serves="v0.0.38")
    server.script = lambda asked: say(asked) if "/job" in asked.path else DIAG


@pytest.mark.parametrize(("cluster", "state"), [("fa", S.REVOKED), ("fb", S.RUNNING)])
def test_of_the_jobs_that_slurmrestd_gives_only_this_clusters_own_count(
    server: Server, cluster: str, state: JobState
) -> None:
    answers(server, cluster)
    found = server.client().job(IDS["running"])
    assert (found.state, found) == (state, next(j for j in server.client().jobs() if j.job_id == IDS["running"]))
    with pytest.raises(JobNotFound):
        server.client().job("67108999")


@pytest.mark.parametrize("words", ["Unable to find JobId=4711", "Unable to query JobId=4711", "Connection refused"])
def test_a_job_that_no_cluster_of_a_federation_has_is_not_found(server: Server, words: str) -> None:
    answers(server, "fb")
    said, script = Said(body={"errors": [{"description": words, "error_number": -1}], "jobs": []}), server.script
    server.script = lambda asked: said if asked.path.endswith("/job/4711") else script(asked)
    with pytest.raises(SlurmUnreachable if words.startswith("Connection") else JobNotFound):
        server.client().job("4711")


def test_a_job_from_before_the_federation_is_not_taken_for_its_namesake(server: Server) -> None:
    """Clusters that joined have jobs with the same small numbers, of which 22.05 gives all by the id."""
    old = IDS["running"].encode()
    alike = {name: read(f"fb_{name}.json").encode().replace(old, b"4711") for name in ("rest_job", "rest_jobs")}
    server.begin(serves="v0.0.38")
    server.script = lambda asked: (
        Said(body=alike["rest_jobs" if asked.path.endswith("/jobs") else "rest_job"]) if "/job" in asked.path else DIAG
    )
    assert server.client().job("4711").state is S.RUNNING
