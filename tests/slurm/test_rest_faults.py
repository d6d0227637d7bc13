"""slurmrestd that is silent, half, wrong or another program: no observation, and a write of unknown effect at most."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from recovery.slurm import rest_door
from recovery.slurm.base import Operation, SlurmRefused, SlurmUnreachable
from recovery.slurm.rest_http import RestHttp
from recovery.slurm.rest_json import TokenRefused
from recovery.slurm.rest_options import rest_client
from tests.slurm.rest_server import CALLS, META, NO_SUCH_CALL, Asked, Said, Server, error, recorded, serving, whole

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
    with pytest.raises(SlurmUnreachable, match=r"no whole answer within 0\.3 s") as caught:
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


class Slurm2302(Server):
    """v0.0.38 beside v0.0.39, which answers nothing while slurmdbd is down."""

    slurmdbd_is_up = token_is_right = True

    def answer(self, asked: Asked) -> Said:
        version = asked.path.split("/")[2]
        if version not in ("v0.0.38", "v0.0.39"):
            return NO_SUCH_CALL
        if version == "v0.0.39" and not (self.slurmdbd_is_up and self.token_is_right):
            return error(7000, "Unable to connect to database", status=500)
        if not (self.token_is_right or asked.path.endswith("/ping")):
            return error(1000, "Unexpected message received", status=500)
        self.asked.append(asked)
        return whole(nodes=[{"name": "n1", "state": "idle", "partitions": ["main"]}])


def test_23_02_is_asked_in_v0_0_38_while_slurmdbd_is_down_and_in_v0_0_39_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(Slurm2302()) as server:
        assert isinstance(server, Slurm2302)
        client = server.client()
        assert client.nodes()
        server.slurmdbd_is_up = False
        with pytest.raises(SlurmUnreachable, match="Unable to connect to database") as caught:
            client.nodes()  # once
        assert not caught.value.permanent
        assert client.nodes()
        assert server.asked[-1].path == "/slurm/v0.0.38/nodes"
        assert not client.can(Operation.DRAIN_NODE)
        server.slurmdbd_is_up = True
        assert client.nodes()
        assert server.asked[-1].path == "/slurm/v0.0.38/nodes"  # looked at again after a minute
        monkeypatch.setattr(rest_door, "AGAIN_AFTER_S", 0)
        monkeypatch.setattr(rest_door, "_again_at", {server.url: 0.0})
        assert client.nodes()
        assert server.asked[-1].path == "/slurm/v0.0.39/nodes"
        assert client.can(Operation.DRAIN_NODE)


def test_a_wrong_token_at_23_02_does_not_lead_to_v0_0_38() -> None:
    with serving(Slurm2302()) as server:
        assert isinstance(server, Slurm2302)
        client = server.client()
        server.token_is_right = False
        for _ in range(2):
            with pytest.raises(SlurmUnreachable, match=r"/v0\.0\.39/nodes.*Unable to connect to database"):
                client.nodes()
        server.token_is_right = True
        assert client.nodes()
        assert server.asked[-1].path == "/slurm/v0.0.39/nodes"


def test_a_server_that_has_nothing_without_slurmdbd_is_said_to_have_that_trouble(server: Server) -> None:
    """As 23.02 where it serves v0.0.39 alone: the version is known, and every call says why it fails."""
    server.begin(serves="v0.0.39")
    no_database = error(7000, "Unable to connect to database", status=500)
    server.pings = no_database
    server.says(no_database)
    for _ in range(2):
        with pytest.raises(SlurmUnreachable, match="Unable to connect to database"):
            server.client().nodes()


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
