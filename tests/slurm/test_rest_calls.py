"""What slurmrestd is told, and what its numbers mean: only Slurm's own error is a no."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recovery.slurm import rest_door
from recovery.slurm.base import (
    JobNotFound,
    NotSupported,
    Operation,
    RightsLevel,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
)
from tests.slurm.rest_server import META, NO_SUCH_CALL, SINCE, WRITES, Asked, Said, Server, error, serving, whole

# --- errors by Slurm's number ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 403, 422, 500])
@pytest.mark.parametrize(
    ("number", "kind", "permanent"),
    [
        (2017, JobNotFound, True),
        (2002, SlurmRefused, True),
        (2010, SlurmRefused, True),
        (2018, SlurmRefused, True),
        (2024, SlurmRefused, True),
        (2037, SlurmRefused, True),
        (2073, SlurmRefused, True),
        (2084, SlurmRefused, True),
        (2180, SlurmRefused, True),
        (2020, SlurmRefused, False),
        (1, SlurmUnreachable, False),  # 26.05 to a cancel while its controller is down, with a 403
        (1000, SlurmUnreachable, False),
        (1800, SlurmUnreachable, False),
        (9000, SlurmUnreachable, False),
        (77, SlurmUnreachable, False),
    ],
)
def test_only_slurms_own_number_makes_a_no(
    server: Server, status: int, number: int, kind: type[SlurmError], permanent: bool
) -> None:
    server.says(error(number, status=status))
    for write in (WRITES["requeue"], WRITES["set_time_limit"]):
        with pytest.raises(SlurmError) as caught:
            write(server.client())
        assert (type(caught.value), caught.value.permanent) == (kind, permanent)


DONE, PENDING = {"error": "No error", "error_code": 0}, {"error": "Job is pending execution", "error_code": 2024}


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([PENDING], SlurmRefused),
        ([PENDING, PENDING], SlurmRefused),
        ([DONE, PENDING], SlurmUnreachable),
        ([{"error": {"string": "Invalid job id specified", "code": 2017}}], JobNotFound),
        ([{"what": "is this"}], SlurmUnreachable),
        (["no object"], SlurmUnreachable),
    ],
)
@pytest.mark.parametrize("key", ["results", "status"])
def test_each_task_of_an_array_has_its_own_result(
    server: Server, key: str, parts: list[object], kind: type[SlurmError]
) -> None:
    server.says(whole(**{key: parts}))
    with pytest.raises(SlurmError) as caught:
        server.client().requeue("12", hold=False)
    assert type(caught.value) is kind


@pytest.mark.parametrize("parts", [None, [], [DONE], [DONE, DONE]])
def test_results_without_an_error_are_success(server: Server, parts: object) -> None:
    server.says(whole(results=parts, status=parts))
    server.client().requeue("12", hold=False)


@pytest.mark.parametrize("call", WRITES)
def test_a_field_that_is_ignored_is_not_taken_for_done(server: Server, call: str) -> None:
    warning = {"description": 'Ignoring unknown field "hold"', "source": "#/hold/"}
    server.says(Said(body={"meta": META, "errors": [], "warnings": [warning]}))
    with pytest.raises(SlurmRefused, match="did not understand") as caught:
        WRITES[call](server.client())
    assert caught.value.permanent


def test_other_warnings_are_no_errors(server: Server) -> None:
    server.says(Said(body={"meta": META, "errors": [], "warnings": [{"description": "careful", "source": "slurm"}]}))
    server.client().hold("12")


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_writes_are_plain_requests_and_a_preview_shows_them(server: Server) -> None:
    server.says(whole())
    client = server.client()
    for write in WRITES.values():
        write(client)
    sent = [(asked.method, asked.path.removeprefix("/slurm/v0.0.45"), asked.body) for asked in server.asked]
    limit = {"set": True, "infinite": False, "number": 2}
    assert sent == [
        ("GET", "/job/12/requeue", None),
        ("POST", "/job/12", {"excluded_nodes": ["n1"]}),
        ("POST", "/job/12", {"hold": False}),
        ("POST", "/job/12", {"hold": True}),
        ("POST", "/job/12", {"time_limit": limit}),
        ("POST", "/job/12", {"admin_comment": "by hand"}),
        ("POST", "/node/n1", {"state": ["RESUME"]}),
    ]
    assert {asked.headers["X-SLURM-USER-TOKEN"] for asked in server.asked} == {"a.b.c"}


def test_an_update_in_v0_0_39_names_an_environment_that_is_none(server: Server) -> None:
    """23.02 refuses a change that names none (9200, "Missing required field 'environment'"); null leaves it alone."""
    server.begin(serves="v0.0.39")
    server.says(whole())
    server.client().hold("12")
    server.client().resume_node("n1")
    assert [asked.body for asked in server.asked] == [{"environment": None, "hold": True}, {"state": ["RESUME"]}]


def test_whether_partitions_are_up_is_asked_in_v0_0_38_where_v0_0_39_does_not_tell(server: Server) -> None:
    server.begin(serves="v0.0.39")
    server.says(whole(partitions=[{"name": "main", "nodes": "n1", "state": "DOWN", "max_time_limit": 60}]))
    (partition,) = server.client().partitions()
    assert (partition.up, partition.nodes, partition.time_limit_s) == (False, ("n1",), 3600)
    assert [asked.path for asked in server.asked] == ["/slurm/v0.0.38/partitions"]
    server.says(NO_SUCH_CALL)
    with pytest.raises(SlurmRefused, match=r"which partitions are up.*openapi/v0\.0\.38 is not loaded") as caught:
        server.client().partitions()
    assert caught.value.permanent


def test_an_empty_list_of_excluded_nodes_is_sent_as_one(server: Server) -> None:
    server.says(whole())
    server.client().set_excluded_nodes("12", ())
    assert server.asked[0].body == {"excluded_nodes": [""]}  # [] would leave the list as it is


HOSTILE_IDS = [
    "",
    "0",
    "all",
    "-u",
    "12;id",
    "12,13",
    "1 2",
    "12\n",
    "12_",
    "12_[1-3]",
    "../node/n1",
    "12?x=1",
    "12/requeue",
]


@pytest.mark.parametrize("job_id", HOSTILE_IDS, ids=repr)
def test_what_is_no_job_id_never_reaches_an_address(server: Server, job_id: str) -> None:
    client = server.client()
    calls: list[Callable[[], object]] = [
        lambda: client.job(job_id),
        lambda: client.attempts([job_id], since=SINCE),
        lambda: client.batch_script(job_id),
        lambda: client.requeue(job_id, hold=False),
        lambda: client.set_excluded_nodes(job_id, ("n1",)),
        lambda: client.hold(job_id),
        lambda: client.release(job_id),
        lambda: client.cancel(job_id),
        lambda: client.set_time_limit(job_id, 60),
        lambda: client.set_admin_comment(job_id, "x"),
    ]
    for call in calls:
        with pytest.raises(JobNotFound):
            call()
    assert server.asked == []


@pytest.mark.parametrize("operation", [Operation.REQUEUE, Operation.REQUEUE_HOLD, Operation.CANCEL])
def test_a_heterogeneous_job_goes_as_a_whole_and_an_array_task_alone(server: Server, operation: Operation) -> None:
    client = server.client()
    with pytest.raises(SlurmRefused, match=r"12\+0"):
        client.preview(operation, "12+1")
    assert "/job/12/" in f"{client.preview(operation, '12+0').split()[1]}/"
    assert "/job/12_3/" in f"{client.preview(operation, '12_3').split()[1]}/"


@pytest.mark.parametrize("name", ["", "n1,n2", "n[1-9]", "../job/1", "n1\n", "-n1"], ids=repr)
def test_what_is_no_node_name_never_reaches_an_address(server: Server, name: str) -> None:
    client = server.client()
    calls: list[Callable[[], object]] = [
        lambda: client.drain_node(name, "x"),
        lambda: client.resume_node(name),
        lambda: client.set_excluded_nodes("12", ("n1", name)),
    ]
    for call in calls:
        with pytest.raises(SlurmRefused, match="not a node name"):
            call()
    assert server.asked == []


# --- versions --------------------------------------------------------------------------------------------------------


def test_the_newest_version_that_is_there_is_taken_once(server: Server) -> None:
    server.serves = "v0.0.43"
    server.says(whole(reservations=[]))
    for _ in range(2):
        server.client().reservations()
    assert [asked.path for asked in server.asked] == ["/slurm/v0.0.43/reservations"] * 2
    with pytest.raises(NotSupported, match="put a job back") as caught:
        server.client().requeue("12", hold=False)
    assert caught.value.permanent
    assert len(server.asked) == 2


def test_an_upgrade_of_slurm_is_found_out(server: Server) -> None:
    server.serves = "v0.0.42"
    server.says(whole(reservations=[]))
    server.client().reservations()
    server.serves, server.script = (
        "v0.0.45",
        lambda asked: whole(reservations=[]) if "v0.0.45" in asked.path else NO_SUCH_CALL,
    )
    with pytest.raises(SlurmUnreachable):
        server.client().reservations()
    assert server.client().reservations() == []


@pytest.mark.parametrize("said", [NO_SUCH_CALL, Said(body=b"<html>", kind="text/html"), Said(body={"hello": "world"})])
def test_another_program_is_not_taken_for_slurmrestd(said: Said) -> None:
    class Other(Server):
        def answer(self, asked: Asked) -> Said:
            return said

    with serving(Other()) as other:
        able = other.client().can(Operation.JOBS)
        assert not able
        assert able.reason
        assert able.remedy
        with pytest.raises(SlurmUnreachable):
            other.client().jobs()
        assert other.url not in rest_door._versions


def test_a_slurmrestd_without_accounting_says_so(server: Server) -> None:
    """As Slinky runs it where the chart's accounting is off: slurmdb is not there, and that is no other version."""
    server.script = lambda asked: (
        NO_SUCH_CALL if asked.path.startswith("/slurmdb/") else whole(statistics={"req_time": 5}, slurm_conf={})
    )
    client = server.client()
    assert not client.health().accounting
    for read in (lambda: client.attempts(["12"], since=SINCE), lambda: client.batch_script("12")):
        with pytest.raises(SlurmRefused, match="serves no accounting"):
            read()
    assert client.rights().level is RightsLevel.UNKNOWN
    assert server.url in rest_door._versions
