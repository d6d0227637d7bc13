"""The back end that asks slurmrestd: what a site offers where there is nothing else (Slinky on Kubernetes).

The newest version of its API that both know is taken; what a version can do is a table (rest_versions.py), its answers
are read in one shape. Whether jobs changed is asked with `update_time`: see `jobs_since`.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from recovery.slurm import cli_json, rest_ended, rest_health, rest_json, rest_requests, rest_versions
from recovery.slurm import json_values as values
from recovery.slurm.base import (
    AttemptRecord,
    Can,
    Health,
    JobNotFound,
    JobRecord,
    JobsPicture,
    NodeRecord,
    Operation,
    PartitionRecord,
    ReservationRecord,
    Rights,
    SlurmClient,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)
from recovery.slurm.federation import is_of_one, with_origins
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.names import check_job_id
from recovery.slurm.rest_attempts import job_id_of, parse_attempts
from recovery.slurm.rest_auth import TokenSource, no_token
from recovery.slurm.rest_door import RestDoor
from recovery.slurm.rest_http import Request, RestHttp, path_of
from recovery.slurm.rest_json import NoSuchCall
from recovery.slurm.states import check_not_drained

T = TypeVar("T")

FEW_JOBS = 10  # so many past jobs are asked for one by one (a few milliseconds each), more of them in one list
FULL_EVERY_S = 300  # a picture is asked for whole at least so often, whatever the mark says: see jobs_since
_NO_DATE = frozenset({400, 422})
_DATED = "v0.0.40"  # from here on a list of jobs says how old it is

_NONE_OF_FEDERATION = re.compile(r"Unable to (find|query) JobId=")  # 22.05, 24.05
_MARK = re.compile(r"(\d{1,12})@(\d{1,12})")  # the controller's time, our time


class RestClient(SlurmClient):
    """One cluster, reached by its slurmrestd. Holds nothing but its configuration: any number may exist.

    `token` is asked before each request ("" for rest_auth/local); `user` is the user's name beside it, "" takes the one
    that the token names. `clock` gives our time in seconds since the epoch.
    """

    def __init__(
        self,
        http: RestHttp,
        *,
        token: TokenSource = no_token,
        user: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._door = RestDoor(http, token=token, user=user)
        self._clock = clock

    def can(self, operation: Operation) -> Can:
        return self._door.can(operation)

    def health(self) -> Health:
        return rest_health.health(self._door)

    def rights(self) -> Rights:
        return rest_health.rights(self._door)

    # --- reads -------------------------------------------------------------------------------------------------------

    def jobs(self) -> list[JobRecord]:
        found = self.jobs_since("").jobs
        if found is None:
            raise SlurmUnreachable("it says that nothing has changed, though asked for all", tried="GET jobs")
        return found

    def jobs_since(self, mark: str) -> JobsPicture:
        """All jobs, or None where slurmctld says that none changed since the second in which `mark` was taken.

        The mark is the controller's own time, taken before the picture or in it. slurmctld gives "no change" only where
        its last change is older than that second, so what changed within it is told again rather than missed. A picture
        that is older than the mark (of another slurmrestd behind the same address) is none. What no mark can tell (a
        clock put back at a fail-over) lasts five minutes at most: then the picture is taken whole.
        """
        version, since = self._door.version(), self._usable(mark)
        before = None if rest_versions.is_at_least(version, _DATED) else self._controller_time()
        if before is not None and since and before < int(since):
            since = ""  # its clock was put back: it would see no change for a while
        params = {"update_time": rest_versions.date(version, since)} if since else None
        answer = self._door.send(Request(method="GET", path=self._door.path("jobs"), params=params))
        if since and answer.status in _NO_DATE:
            return self.jobs_since("")  # of a server that takes our date for none everything is asked for
        if answer.status == 304 and since:
            return JobsPicture(jobs=None, mark=mark)
        data = rest_json.whole(answer)
        return self._door.parsed(lambda: self._picture(data, mark=mark, since=since, before=before), tried=answer.tried)

    def _picture(self, data: Mapping[str, Any], *, mark: str, since: str, before: int | None) -> JobsPicture:
        entries = rest_json.entries(data, "jobs")
        dated = values.number(data, "last_update") or before
        if "last_update" in data and not dated:
            # Newer releases say "no job changes" by an empty list without a date, in a 200.
            if since and not entries:
                return JobsPicture(jobs=None, mark=mark)
            raise BadAnswer("a list of jobs without the time that it is of")
        if since and dated and dated < int(since):
            raise BadAnswer("it is older than the picture before it")
        if since and not entries and "last_update" not in data:
            if rest_json.says_unchanged(data):
                return JobsPicture(jobs=None, mark=mark)
            return self.jobs_since("")  # such a list could mean either
        new_mark = f"{dated}@{int(self._clock())}" if dated else ""
        return JobsPicture(jobs=self._jobs(entries), mark=new_mark)

    def _usable(self, mark: str) -> str:
        """The controller's time in a mark of ours, "" where everything is to be asked for."""
        found = _MARK.fullmatch(mark)
        if found is None or not 0 <= self._clock() - int(found[2]) <= FULL_EVERY_S:
            return ""
        return found[1]

    def _controller_time(self) -> int:
        statistics = self._door.read(Request(method="GET", path=self._door.path("diag"))).get("statistics")
        now = values.number(statistics, "req_time") if isinstance(statistics, dict) else None
        if not now:
            raise SlurmUnreachable("the controller does not say what time it is", tried="GET diag")
        return now

    def job(self, job_id: str) -> JobRecord:
        """A task of an array and a component are looked up among all of theirs: not every version takes their ids."""
        return self._one(job_id)[0]

    def _one(self, job_id: str) -> tuple[JobRecord, dict[str, Any]]:
        check_job_id(job_id)
        leader = _leader(job_id)
        request = Request(method="GET", path=self._door.path("job", leader))
        entries = self._of_this_cluster(leader) if is_of_one(leader) else self._by_id(request, leader)
        for entry in entries:
            record = self._door.parsed(partial(cli_json.job_record, entry), tried=str(request))
            if record.job_id == job_id:
                return record, entry
        raise JobNotFound("the controller knows no such job", tried=str(request), permanent=True)

    def _of_this_cluster(self, leader: str) -> list[dict[str, Any]]:
        """The records of one job of a federation, in the list of all. By its id 22.05 gives those of all its clusters,
        and 23.02 and 24.05 take no id that great."""

        def parse(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
            keys = ("job_id", "array_job_id", "het_job_id")
            return [e for e in self._shaped("job", entries) if int(leader) in [values.number(e, key) for key in keys]]

        return self._list("jobs", parse)

    def _by_id(self, request: Request, leader: str) -> list[dict[str, Any]]:
        """In a federation one that no cluster has is an error without a number, in words of libslurm's own; and what
        was submitted before may have the number of another cluster's job.
        """
        answer = self._door.send(request)
        try:
            data = rest_json.whole(answer)
        except SlurmUnreachable as error:
            if not _NONE_OF_FEDERATION.search(error.message):
                raise
            return self._of_this_cluster(leader)
        found = self._door.parsed(lambda: self._shaped("job", rest_json.entries(data, "jobs")), tried=answer.tried)
        several = len({entry.get("cluster") for entry in found}) > 1
        return self._of_this_cluster(leader) if several else found

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        version = self._door.needed(Operation.ATTEMPTS)
        for job_id in job_ids:
            check_job_id(job_id)
        leaders = sorted({_leader(job_id) for job_id in job_ids})
        if not leaders:
            return {}
        db, start = ("slurmdb", version), int(since.timestamp())
        if len(leaders) <= FEW_JOBS:
            requests = [Request(method="GET", path=path_of(*db, "job", leader)) for leader in leaders]
        else:
            params = {"start_time": str(start), "show_duplicates": "true"}
            requests = [Request(method="GET", path=path_of(*db, "jobs"), params=params)]
        rows = [row for request in requests for row in self._accounted(request)]

        def parse() -> dict[str, list[AttemptRecord]]:
            # One that ended before is of an older job by the same number.
            young = [row for row in self._shaped("attempt", rows) if (_ended_s(row) or start) >= start]
            return parse_attempts(young, job_ids)

        return self._door.parsed(parse, tried=str(requests[0]))

    def ended_between(self, start: datetime, end: datetime) -> list[JobRecord]:
        request = rest_ended.question(self._door.needed(Operation.ENDED_BETWEEN), start, end)
        data = self._accounts(request)

        def parse() -> list[JobRecord]:
            _, cluster = rest_json.release_and_cluster(data)
            entries = self._shaped("attempt", rest_json.entries(data, "jobs"))
            found = rest_ended.ended(entries, cluster=cluster, start=start, end=end)
            return with_origins(found, {}, here=cluster)

        return self._door.parsed(parse, tried=str(request))

    def nodes(self) -> list[NodeRecord]:
        found = self._list("nodes", lambda entries: [cli_json.node_record(e) for e in self._shaped("node", entries)])
        if not found:
            raise SlurmUnreachable("the answer names no node", tried="GET nodes")
        return sorted(found, key=lambda record: record.name)

    def partitions(self) -> list[PartitionRecord]:
        version = self._door.version()
        older = rest_versions.asked_in(version, "partition")

        def parse(entries: list[dict[str, Any]]) -> list[PartitionRecord]:
            return [rest_json.partition_record(e) for e in rest_versions.newest_shape(older, "partition", entries)]

        try:
            return self._list("partitions", parse, version=older)
        except NoSuchCall as error:
            if older == version:
                raise
            message = f"{version} does not say which partitions are up, and openapi/{older} is not loaded"
            raise SlurmRefused(message, tried=error.tried, permanent=True) from error

    def reservations(self) -> list[ReservationRecord]:
        return self._list(
            "reservations",
            lambda entries: [rest_json.reservation_record(e) for e in self._shaped("reservation", entries)],
        )

    def topology(self) -> dict[str, str]:
        """Not by slurmrestd: of a node it tells what slurm.conf says of it, and never what topology.conf does."""
        raise self._door.denied(Operation.TOPOLOGY)

    def batch_script(self, job_id: str) -> str:
        """From accounting, where AccountingStoreFlags has job_script. All components of a job share its script."""
        version = self._door.needed(Operation.BATCH_SCRIPT)
        check_job_id(job_id)
        plain = job_id.partition("+")[0]
        params = {"step": plain, "show_batch_script": "true", "skip_steps": "true"}
        request = Request(method="GET", path=path_of("slurmdb", version, "jobs"), params=params)
        rows = self._door.parsed(
            lambda: [row for row in self._accounted(request) if job_id_of(row).partition("+")[0] == plain],
            tried=str(request),
        )
        if not rows:
            raise JobNotFound("accounting knows no such job", tried=str(request), permanent=True)
        script = self._door.parsed(
            lambda: next((s for row in rows if (s := values.text(row, "script"))), ""), tried=str(request)
        )
        if not script:
            message = "accounting keeps no scripts: AccountingStoreFlags needs job_script"
            raise SlurmRefused(message, tried=str(request), permanent=True)
        return script

    # --- writes ------------------------------------------------------------------------------------------------------

    def requeue(self, job_id: str, *, hold: bool) -> None:
        self._act(rest_requests.requeue(self._door.needed(_requeue_of(hold)), job_id, hold=hold))

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        """Slurm allows it for pending jobs only: SlurmRefused otherwise."""
        self._change(Operation.SET_EXCLUDED_NODES, job_id, nodes=nodes)

    def release(self, job_id: str) -> None:
        self._change(Operation.RELEASE, job_id)

    def hold(self, job_id: str) -> None:
        self._change(Operation.HOLD, job_id)

    def set_time_limit(self, job_id: str, seconds: float) -> None:
        self._change(Operation.SET_TIME_LIMIT, job_id, value=str(seconds))

    def set_admin_comment(self, job_id: str, text: str) -> None:
        self._change(Operation.SET_ADMIN_COMMENT, job_id, value=text)

    def cancel(self, job_id: str) -> None:
        """Looked at first: 22.05 answers to a second cancel as if it had worked."""
        version = self._door.needed(Operation.CANCEL)
        record = self.job(job_id)
        request = rest_requests.cancel(version, job_id)
        if record.state.is_terminal:
            raise SlurmRefused(f"the job has ended already ({record.state})", tried=str(request), permanent=True)
        self._act(request)

    def drain_node(self, name: str, reason: str) -> None:
        request = rest_requests.of(self._door.needed(Operation.DRAIN_NODE), Operation.DRAIN_NODE, name, value=reason)
        check_not_drained(self.nodes(), name)
        self._act(request)

    def resume_node(self, name: str) -> None:
        self._act(rest_requests.of(self._door.needed(Operation.RESUME_NODE), Operation.RESUME_NODE, name))

    def submit(self, submission: Submission) -> str:
        """Not by slurmrestd: it reads no #SBATCH lines, so the job would get other resources than it asks for."""
        raise self._door.denied(Operation.SUBMIT)

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        return str(rest_requests.of(self._door.needed(operation), operation, subject, nodes=nodes, value=value))

    def _change(self, operation: Operation, job_id: str, *, nodes: tuple[str, ...] = (), value: str = "") -> None:
        version = self._door.needed(operation)
        request = rest_requests.of(version, operation, job_id, nodes=nodes, value=value)
        if job_id != _leader(job_id):
            request = dataclasses.replace(request, path=self._door.path("job", self._own_number(job_id, str(request))))
        self._act(request)

    def _own_number(self, job_id: str, tried: str) -> str:
        """The number under which Slurm keeps a task or a component: an update takes nothing else (26.05)."""
        _, entry = self._one(job_id)
        number = self._door.parsed(lambda: values.number(entry, "job_id"), tried=tried)
        if "_" in job_id and str(number) == _leader(job_id):
            # The array's own number stands for all its tasks, and one of them has it as well.
            message = f"slurmrestd changes task {job_id} only together with its whole array: let the commands act"
            raise SlurmRefused(message, tried=tried, permanent=True)
        return str(number)

    # --- the door ----------------------------------------------------------------------------------------------------

    def _act(self, request: Request) -> None:
        rest_json.check_write(self._door.send(request))

    def _list(self, key: str, parse: Callable[[list[dict[str, Any]]], list[T]], *, version: str = "") -> list[T]:
        """`version`: another one than the newest that both know."""
        path = path_of("slurm", version or self._door.version(), key)
        answer = self._door.send(Request(method="GET", path=path))
        data = rest_json.whole(answer)
        return self._door.parsed(lambda: parse(rest_json.entries(data, key)), tried=answer.tried)

    def _accounted(self, request: Request) -> list[dict[str, Any]]:
        """A list of slurmdbd's jobs."""
        data = self._accounts(request)
        return self._door.parsed(lambda: rest_json.entries(data, "jobs"), tried=str(request))

    def _accounts(self, request: Request) -> dict[str, Any]:
        """What slurmdbd answers. SlurmRefused where slurmrestd runs without accounting."""
        try:
            return rest_json.whole(self._door.send(request), ignore=frozenset({rest_json.NOTHING_FOUND}))
        except NoSuchCall as error:
            message = "this slurmrestd serves no accounting (openapi/slurmdbd is not loaded)"
            raise SlurmRefused(message, tried=error.tried, permanent=True) from error

    def _jobs(self, entries: list[dict[str, Any]]) -> list[JobRecord]:
        return [cli_json.job_record(entry) for entry in cli_json.with_ids(self._shaped("job", entries))]

    def _shaped(self, kind: rest_versions.Kind, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return rest_versions.newest_shape(self._door.version(), kind, entries)


def _leader(job_id: str) -> str:
    """ "4711" of "4711_3" and "4711+1"."""
    return re.split(r"[_+]", job_id)[0]


def _ended_s(row: Mapping[str, Any]) -> int | None:
    times = row.get("time")
    return values.number(times, "end") if isinstance(times, dict) else None


def _requeue_of(hold: bool) -> Operation:
    return Operation.REQUEUE_HOLD if hold else Operation.REQUEUE
