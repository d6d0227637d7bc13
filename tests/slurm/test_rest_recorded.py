"""What real slurmrestds answered (tests/slurm/record_rest.py), each version of the API read by the client."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recovery.core.types import JobState, NodeState
from recovery.slurm.base import (
    HELD_BY_REQUEUE,
    JobNotFound,
    NotSupported,
    Operation,
    RightsLevel,
    SlurmRefused,
    SlurmUnreachable,
)
from recovery.slurm.rest import RestClient
from recovery.slurm.rest_attempts import job_id_of, parse_attempts
from recovery.slurm.rest_versions import NEWEST_FIRST, STEPS, operations
from tests.slurm.rest_server import NO_SUCH_CALL, RECORDED, Asked, Said, Server, recorded

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
ANSWERS = sorted(path.parts[-2:] for path in RECORDED.glob("rest-*/v*") if path.is_dir())
UNDATED = ("v0.0.38", "v0.0.39")
NEW = [answer for answer in ANSWERS if answer[1] != "v0.0.38"]
ACCOUNTED = [answer for answer in ANSWERS if Operation.ATTEMPTS in operations(answer[1])]
IN_NO_RELEASE = {Operation.SUBMIT, Operation.TOPOLOGY}
# What is asked of the scripted server, by the recorded answer; the first match counts.
_FILES: tuple[tuple[str, str], ...] = (
    (r"GET /slurm/[^/]+/(jobs|nodes|partitions|reservations|diag|conf)", r"\1"),
    (r"GET /slurm/[^/]+/job/(?:ARRAY)", "job_array"),
    (r"GET /slurm/[^/]+/job/(?:HET)", "job_het"),
    (r"GET /slurm/[^/]+/job/\d+/requeue", "requeue_pending"),
    (r"GET /slurm/[^/]+/job/\d+", "job_unknown"),
    (r"POST /slurm/[^/]+/job/999999", "update_unknown"),
    (r"POST /slurm/[^/]+/job/\d+", "update_ended"),
    (r"DELETE /slurm/[^/]+/job/\d+", "cancel_ended"),
    (r"POST /slurm/[^/]+/node/\w+", "drain_unknown"),
    (r"GET /slurmdb/[^/]+/user/root", "user_root"),
    (r"GET /slurmdb/[^/]+/user/\w+", "user_unknown"),
    (r"GET /slurmdb/[^/]+/job/999999", "attempts_unknown"),
    (r"GET /slurmdb/[^/]+/jobs", "script"),
)


class Recording:
    """A server that gives the answers of one release and version, and a client on it."""

    def __init__(self, server: Server, folder: str, version: str) -> None:
        self.release, self.version = folder.removeprefix("rest-"), version
        self.ids = dict(line.split() for line in (RECORDED / folder / "jobs.txt").read_text().splitlines())
        self.server = server
        server.begin(serves=version)
        server.script = self._answer

    def said(self, name: str, *, version: str = "") -> Said:
        return recorded(self.release, version or self.version, name)

    @property
    def client(self) -> RestClient:
        return self.server.client(user="root")

    def _answer(self, asked: Asked) -> Said:
        for kind in ("failed_requeued", "cancelled", "array", "het"):
            if asked.path == f"/slurmdb/{self.version}/job/{self.ids[kind]}":
                return self.said(f"attempts_{kind}")
        line = f"{asked.method} {asked.path}"
        for pattern, name in _FILES:
            found = re.fullmatch(pattern.replace("ARRAY", self.ids["array"]).replace("HET", self.ids["het"]), line)
            if found:  # in another version than ours where the client asks in that
                version = asked.path.split("/")[2]
                served = (f"rest-{self.release}", version) in ANSWERS
                return self.said(found.expand(name), version=version) if served else NO_SUCH_CALL
        raise AssertionError(f"nothing recorded for {line}")


@pytest.fixture(params=ANSWERS, ids="-".join)
def recording(request: pytest.FixtureRequest, running: Server) -> Recording:
    return Recording(running, *request.param)


@pytest.fixture(params=NEW, ids="-".join)
def newer(request: pytest.FixtureRequest, running: Server) -> Recording:
    """Those of the versions that can do more than 22.05's."""
    return Recording(running, *request.param)


@pytest.fixture(params=ACCOUNTED, ids="-".join)
def accounted(request: pytest.FixtureRequest, running: Server) -> Recording:
    """Those of the versions that tell of past attempts."""
    return Recording(running, *request.param)


def test_every_version_is_recorded() -> None:
    assert {version for _, version in ANSWERS} == {step.name for step in STEPS}
    assert ANSWERS.count(("rest-24.11", "v0.0.42")) == ANSWERS.count(("rest-26.05", "v0.0.42")) == 1


def test_jobs_read_as_their_command_line_brothers_do(recording: Recording) -> None:
    jobs = {job.job_id: job for job in recording.client.jobs()}
    ids = recording.ids
    running, failed, held = jobs[ids["running"]], jobs[ids["failed"]], jobs[ids["held"]]
    assert (running.state, len(running.nodes), running.excluded_nodes) == (JobState.RUNNING, 2, ("n4",))
    assert running.comment.startswith('{"recovery"')
    assert "\n" in running.name
    assert running.stdout.startswith("/home/ada/")
    assert (failed.state, failed.exit_code, failed.time_limit_s) == (JobState.FAILED, 4, 1800.0)
    assert failed.stderr == f"/home/ada/err-{failed.job_id}.log"
    assert (held.state, held.held, held.state_reason) == (JobState.PENDING, True, "JobHeldUser")
    back = jobs[ids["held_requeue"]]
    assert (back.state, back.held, back.state_reason) == (JobState.PENDING, True, HELD_BY_REQUEUE)
    assert (back.restart_count, back.excluded_nodes) == (1, ("n1", "n2"))
    assert jobs[ids["cancelled"]].state is JobState.CANCELLED
    assert (jobs[ids["signalled"]].exit_code, jobs[ids["signalled"]].exit_signal) == (0, 11)
    assert jobs[ids["gpus"]].gpus == 4
    assert {f"{ids['het']}+0", f"{ids['het']}+1"} <= set(jobs)
    assert f"{ids['array']}_1" in jobs
    assert jobs[ids["array"]].stdout == ""  # of the tasks that wait together there is no single file


def test_the_same_jobs_are_in_every_version(running: Server) -> None:
    """A step that drops or invents something would show here: the recordings of one release are of one moment."""
    known: dict[str, list[object]] = {}
    for release, version in NEW:
        jobs = Recording(running, release, version).client.jobs()
        picture = {job.job_id: (job.state, job.nodes, job.exit_code, job.stdout) for job in jobs}
        known.setdefault(release, []).append(picture)
    assert {release: len(pictures) for release, pictures in known.items()} == {
        **{"rest-23.02": 1, "rest-23.11": 2, "rest-24.05": 3, "rest-24.11": 3, "rest-26.05": 4}
    }
    assert all(picture == pictures[0] for pictures in known.values() for picture in pictures)


def test_tasks_and_components_are_found_by_their_names(recording: Recording) -> None:
    for job_id in (f"{recording.ids['array']}_1", f"{recording.ids['het']}+0", f"{recording.ids['het']}+1"):
        assert recording.client.job(job_id).job_id == job_id
    with pytest.raises(JobNotFound):
        recording.client.job(f"{recording.ids['array']}_77")
    with pytest.raises(JobNotFound, match="Invalid job id"):
        recording.client.job("999999")


def test_nodes_and_reservations_are_read(recording: Recording) -> None:
    nodes = {node.name: node for node in recording.client.nodes()}
    assert [nodes[name].state for name in ("n3", "n4")] == [NodeState.DOWN, NodeState.DRAINED]
    assert (nodes["n3"].reason, nodes["n3"].reason_by) == ("power supply", "root")
    assert {node.partitions for node in nodes.values()} == {("main",)}
    assert {node.gpus for node in nodes.values()} == {8}
    assert nodes["n1"].jobs_on_it
    assert not nodes["n4"].jobs_on_it
    (reservation,) = recording.client.reservations()
    assert (reservation.name, reservation.nodes, reservation.users) == ("maint", ("n1",), ("root",))
    assert reservation.maintenance
    assert (reservation.ends_at - reservation.starts_at).total_seconds() == 3600


def test_partitions_are_read(recording: Recording) -> None:
    if (recording.release, recording.version) == ("24.05", "v0.0.39"):  # which has v0.0.38 no longer
        with pytest.raises(SlurmRefused, match="which partitions are up"):
            recording.client.partitions()
        return
    (partition,) = recording.client.partitions()
    assert (partition.name, partition.up, partition.time_limit_s) == ("main", True, None)
    assert partition.nodes == ("n1", "n2", "n3", "n4")
    assert partition.default == (recording.version in ("v0.0.38", "v0.0.39", "v0.0.45"))  # 39 asks 38


def test_health_tells_what_the_version_tells(recording: Recording) -> None:
    health = recording.client.health()
    assert health.release.startswith(recording.release)
    assert health.controller_time is not None
    assert health.accounting == (Operation.ATTEMPTS in operations(recording.version))
    assert health.cluster_name == ("" if recording.version in UNDATED else "lab")
    if recording.version == "v0.0.45":
        assert (health.requeue_delay_s, health.min_job_age_s, health.store_flags) == (6.0, 300.0, ("job_comment",))
    else:
        assert (health.requeue_delay_s, health.min_job_age_s, health.store_flags) == (121.0, None, ())


def test_rights_are_accountings_word(recording: Recording) -> None:
    assert recording.client.rights().level is RightsLevel.FULL
    rights = recording.server.client(user="nobody").rights()
    assert rights.user == "nobody"
    assert rights.level is RightsLevel.OWN  # an error "nothing found" in 22.05, an empty list in newer releases


def test_nothing_new_is_told_from_nothing(recording: Recording) -> None:
    first = recording.client.jobs_since("")
    assert first.jobs
    assert first.mark
    recording.server.says(recording.said("jobs_unchanged"))
    client = recording.client
    if recording.version in UNDATED:  # it asks the controller for its time first
        unchanged, diag = recording.said("jobs_unchanged"), recording.said("diag")
        recording.server.script = lambda asked: diag if asked.path.endswith("/diag") else unchanged
    again = client.jobs_since(first.mark)
    assert (again.jobs, again.mark) == (None, first.mark)


def test_attempts_have_their_ends(accounted: Recording) -> None:
    ids = accounted.ids
    found = accounted.client.attempts([ids["failed_requeued"], ids["cancelled"]], since=SINCE)
    ends = [(attempt.number, attempt.state, attempt.exit_code) for attempt in found[ids["failed_requeued"]]]
    assert ends[0] == (0, JobState.FAILED, 7)
    assert [number for number, _, _ in ends] == list(range(len(ends)))
    (cancelled,) = found[ids["cancelled"]]
    assert (cancelled.state, cancelled.cancelled_by, cancelled.exit_code) == (JobState.CANCELLED, "root", 0)
    assert cancelled.nodes == ("n2",)
    parts = accounted.client.attempts([f"{ids['array']}_1", f"{ids['het']}+1"], since=SINCE)
    assert set(parts) == {f"{ids['array']}_1", f"{ids['het']}+1"}
    assert accounted.client.attempts(["999999"], since=SINCE) == {}


def test_attempts_of_an_older_job_by_the_same_number_are_left_out(accounted: Recording) -> None:
    ids = accounted.ids
    later = datetime(2030, 1, 1, tzinfo=UTC)
    assert ids["cancelled"] not in accounted.client.attempts([ids["cancelled"]], since=later)


def test_a_script_that_is_not_kept_is_refused_with_the_reason(accounted: Recording) -> None:
    if accounted.release == "24.11":  # recorded where it is kept
        assert accounted.client.batch_script(accounted.ids["held"]).startswith("#!/bin/sh\n")
        return
    with pytest.raises(SlurmRefused, match="AccountingStoreFlags needs job_script"):
        accounted.client.batch_script(accounted.ids["held"])


def test_what_22_05_can_not_do_is_denied_before_anything_is_asked(recording: Recording) -> None:
    client, able = recording.client, operations(recording.version)
    assert {operation for operation in Operation if client.can(operation)} == able
    for operation in set(Operation) - able:
        can = client.can(operation)
        assert recording.version in can.reason
        assert "acts_by" in can.remedy
        assert ("upgrade to Slurm 2" in can.remedy) == (operation not in IN_NO_RELEASE)
        with pytest.raises(NotSupported):
            client.preview(operation, "12", nodes=("n1",), value="60")
    assert recording.server.asked == []


def test_an_ended_or_unknown_job_is_not_changed(recording: Recording) -> None:
    client, failed = recording.client, recording.ids["failed"]
    with pytest.raises(SlurmRefused, match="already finished"):
        client.set_time_limit(failed, 300)
    with pytest.raises(JobNotFound):
        client.set_time_limit("999999", 300)
    with pytest.raises(JobNotFound):
        client.cancel("999999")


def test_a_second_cancel_is_refused(recording: Recording) -> None:
    """22.05 says that it worked, newer releases say so in a list of results; the job's own state comes first."""
    jobs = {job.job_id: job for job in recording.client.jobs()}
    failed, answer = recording.ids["failed"], recording.said("jobs")
    assert jobs[failed].state.is_terminal
    recording.server.script = lambda asked: (
        recording.said("cancel_ended") if asked.method == "DELETE" else answer  # all jobs: the right one is looked up
    )
    with pytest.raises(SlurmRefused, match="ended already"):
        recording.client.cancel(failed)
    assert "DELETE" not in {asked.method for asked in recording.server.asked}


def test_a_field_that_the_server_does_not_know_is_no_success(recording: Recording) -> None:
    """But for v0.0.39, which passes over it without a word. Ours it knows: the contract suite has seen what they do."""
    recording.server.says(recording.said("update_unknown_field"))
    if recording.version != "v0.0.39":
        with pytest.raises((SlurmRefused, SlurmUnreachable)):
            recording.client.hold(recording.ids["held"])
    recording.server.says(recording.said("update_done"))
    recording.client.hold(recording.ids["held"])


def test_a_pending_job_is_not_requeued_and_an_unknown_node_not_drained(newer: Recording) -> None:
    if newer.client.can(Operation.REQUEUE):
        with pytest.raises(SlurmRefused, match="pending execution"):
            newer.client.requeue(newer.ids["held"], hold=True)
    with pytest.raises(SlurmRefused, match="Invalid node name"):
        newer.client.drain_node("nowhere", "bad GPU")


def test_a_node_that_somebody_drained_is_left_to_them(newer: Recording) -> None:
    with pytest.raises(SlurmRefused, match='drained already: bad "gpu"'):
        newer.client.drain_node("n4", "bad GPU")
    assert {asked.method for asked in newer.server.asked} == {"GET"}


def test_every_version_says_what_it_ignores() -> None:
    assert [step.name for step in STEPS] == [f"v0.0.{number}" for number in range(38, 46)]
    assert all(step.ignores for step in STEPS)
    assert NEWEST_FIRST[0] == STEPS[-1].name
    assert operations("v0.0.38") < operations("v0.0.41") < operations("v0.0.42") < operations("v0.0.45")
    assert operations("v0.0.45") == frozenset(Operation) - IN_NO_RELEASE


def test_recordings_hold_nothing_of_the_machine_they_were_made_on() -> None:
    for path in RECORDED.glob("rest-*/v*/*.txt"):
        text = path.read_bytes()
        assert b"eyJ" not in text  # a token
        assert b"/tmp/" not in text.replace(b"/tmp/slurm", b"")
        assert str(Path.home()).encode() + b"/" not in text


def test_an_attempt_that_accounting_lost_leaves_a_gap() -> None:
    body = recorded("26.05", "v0.0.45", "attempts_failed_requeued").data
    rows = json.loads(body)["jobs"]
    (job_id,) = {job_id_of(row) for row in rows}
    whole = parse_attempts(rows, [job_id])[job_id]
    assert [attempt.number for attempt in whole] == list(range(len(rows)))
    last = max(rows, key=lambda row: row["time"]["submission"])
    assert [attempt.number for attempt in parse_attempts([last], [job_id])[job_id]] == [len(rows) - 1]
    uncounted = [{key: value for key, value in row.items() if key != "restart_cnt"} for row in rows]
    assert [attempt.number for attempt in parse_attempts(uncounted, [job_id])[job_id]] == list(range(len(rows)))
