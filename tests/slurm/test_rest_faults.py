"""slurmrestd that is silent, half, wrong or another program: no observation, and a write of unknown effect at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recovery.slurm import rest_door
from recovery.slurm.base import (
    JobNotFound,
    NotSupported,
    Operation,
    RightsLevel,
    SlurmClient,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
)
from recovery.slurm.rest_http import RestHttp
from recovery.slurm.rest_json import TokenRefused
from recovery.slurm.rest_options import rest_client
from tests.slurm.rest_server import META, NO_SUCH_CALL, Asked, Said, Server, error, recorded, serving, whole

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
READS: dict[str, Callable[[SlurmClient], object]] = {
    "health": lambda client: client.health(),
    "jobs": lambda client: client.jobs(),
    "job": lambda client: client.job("12"),
    "attempts": lambda client: client.attempts(["12"], since=SINCE),
    "nodes": lambda client: client.nodes(),
    "partitions": lambda client: client.partitions(),
    "reservations": lambda client: client.reservations(),
}
WRITES: dict[str, Callable[[SlurmClient], object]] = {
    "requeue": lambda client: client.requeue("12", hold=False),
    "set_excluded_nodes": lambda client: client.set_excluded_nodes("12", ("n1",)),
    "release": lambda client: client.release("12"),
    "hold": lambda client: client.hold("12"),
    "set_time_limit": lambda client: client.set_time_limit("12", 90),
    "set_admin_comment": lambda client: client.set_admin_comment("12", "by hand"),
    "resume_node": lambda client: client.resume_node("n1"),
}
CALLS = READS | WRITES

BROKEN: dict[str, Said] = {
    "nothing": Said(body=b""),
    "half a document": Said(body=b'{"jobs": [], "errors": ['),
    "half a body": Said(body=b'{"jobs": []}', length=5000),
    "a list": Said(body=[]),
    "a page": Said(body=b"<html>Log in</html>", kind="text/html"),
    "a page that says it is JSON": Said(body=b"<html>Log in</html>"),
    "a text": Said(body=b"Unspecified error", kind="text/plain", status=500),
    "no type": Said(body=b"{}", kind=""),
    "a gateway": Said(status=502, body=b"Bad Gateway", kind="text/html"),
    "a status without a word": Said(status=503, body={"meta": META}),
    "an error in a 200": error(1800, "Unable to contact slurm controller (connect failure)"),
    "an error without a number": Said(body={"meta": META, "errors": [{"description": "job array update failed"}]}),
    "errors that are no list": Said(body={"meta": META, "errors": "broken"}),
    "deep nesting": Said(body=b"[" * 100_000),
    "compressed": Said(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.begin()
    return running


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("call", CALLS)
def test_a_broken_answer_is_no_answer(server: Server, call: str, broken: str) -> None:
    server.says(BROKEN[broken])
    with pytest.raises(SlurmUnreachable) as caught:
        CALLS[call](server.client())
    assert not caught.value.permanent
    assert "/v0.0.45" in caught.value.tried
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize("call", ["jobs", "nodes", "partitions", "job"])
def test_an_object_without_its_list_is_no_answer(server: Server, call: str) -> None:
    server.says(whole())
    with pytest.raises(SlurmUnreachable, match="it has no list"):
        CALLS[call](server.client())


def test_a_list_of_jobs_that_is_of_no_time_is_no_answer(server: Server) -> None:
    """As 26.05 writes "no changes": taken for a picture it would say that all jobs are gone."""
    server.says(whole(jobs=[], last_update={"set": True, "infinite": False, "number": 0}))
    with pytest.raises(SlurmUnreachable, match="without the time"):
        server.client().jobs()


@pytest.mark.parametrize("call", ["jobs", "requeue"])
def test_silence_is_given_up_in_time(server: Server, call: str) -> None:
    server.says(Said(wait_s=2))
    client = server.client(timeout_s=0.3)
    with pytest.raises(SlurmUnreachable, match=r"no answer within 0\.3 s") as caught:
        CALLS[call](client)
    assert not caught.value.permanent  # of a write: what it did is unknown


def test_an_answer_that_trickles_is_given_up(server: Server) -> None:
    server.says(Said(body=b" " * 200, trickle_s=0.05))
    started = time.monotonic()
    with pytest.raises(SlurmUnreachable, match=r"no whole answer within 0\.5 s"):
        server.client(timeout_s=0.5).jobs()
    assert time.monotonic() - started < 3


def test_an_endless_answer_is_cut(server: Server) -> None:
    server.says(Said(body=b" " * 300_000))
    client = server.client()
    client._door._http = RestHttp(server.url, timeout_s=5, max_answer=100_000)
    with pytest.raises(SlurmUnreachable, match="longer than 100000 bytes"):
        client.jobs()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_takes_no_token_elsewhere(server: Server, status: int) -> None:
    with serving(Server()) as elsewhere:
        server.says(Said(status=status, headers={"Location": f"{elsewhere.url}/slurm/v0.0.45/jobs"}))
        with pytest.raises(SlurmUnreachable, match="sends us elsewhere") as caught:
            server.client().jobs()
        assert caught.value.permanent
        assert elsewhere.asked == []


def test_proxies_of_the_environment_take_no_part(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Server()) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        server.says(whole(reservations=[]))
        assert server.client().reservations() == []
        assert proxy.asked == []


def test_nobody_who_listens_is_no_answer(tmp_path: Path) -> None:
    for url, words in ((f"unix:{tmp_path}/slurmrestd.socket", "there is no socket"), ("http://127.0.0.1:9", "refused")):
        with pytest.raises(SlurmUnreachable, match=words):
            rest_client({"url": url, "token": "a.b.c"}, timeout_s=1).jobs()


def test_certificates_that_are_not_there_are_said_so(tmp_path: Path) -> None:
    options = {"url": "https://127.0.0.1:9", "token": "a.b.c", "ca_file": str(tmp_path / "ca.pem")}
    with pytest.raises(SlurmUnreachable, match="option ca_file") as caught:
        rest_client(options, timeout_s=1).jobs()
    assert caught.value.permanent


# --- who we are ------------------------------------------------------------------------------------------------------

NOT_ACCEPTED: dict[str, Said] = {
    "22.05, none": Said(status=401, body=b"Authentication failure", kind="text/plain"),
    "26.05, wrong": recorded("26.05", "v0.0.45", "jobs_wrong_token"),
    "26.05, in a 200": error(1007, "Protocol authentication error"),
}


@pytest.mark.parametrize("said", NOT_ACCEPTED)
@pytest.mark.parametrize("call", CALLS)
def test_a_token_that_is_refused_is_a_refusal_with_a_remedy(server: Server, call: str, said: str) -> None:
    server.says(NOT_ACCEPTED[said])
    with pytest.raises(TokenRefused, match="the token or the user name was refused") as caught:
        CALLS[call](server.client())
    assert caught.value.permanent
    assert isinstance(caught.value, SlurmRefused)


def test_a_wrong_token_at_22_05_is_no_empty_picture(server: Server) -> None:
    """There it can't be told from a controller that is down."""
    server.says(recorded("22.05", "v0.0.38", "jobs_wrong_token"))
    with pytest.raises(SlurmUnreachable, match="Failed while looking for jobs"):
        server.client().jobs()


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
