"""Tokens: configured, from a file, made by scontrol; and what a cluster's options may be."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from recovery.slurm import rest_auth
from recovery.slurm.base import SlurmRefused, SlurmUnreachable
from recovery.slurm.registry import BadOptions, client_for
from recovery.slurm.rest import RestClient
from recovery.slurm.rest_auth import ScontrolToken, end_of, token_from_file, user_of
from recovery.slurm.rest_json import TokenRefused
from recovery.slurm.together import TogetherClient
from tests.slurm.rest_server import Said, Server, whole


def token_for(user: object, **more: object) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"sun": user, **more}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{claims}.c2lnbmF0dXJl"


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(ScontrolToken, "_kept", {})
    running.begin()
    running.says(whole(reservations=[]))
    return running


def heads(server: Server) -> list[tuple[str, str]]:
    return [(a.headers.get("X-SLURM-USER-NAME", ""), a.headers.get("X-SLURM-USER-TOKEN", "")) for a in server.asked]


def test_the_user_is_the_one_that_the_token_names_unless_another_is_configured(server: Server) -> None:
    token = token_for("desk")
    server.client(token=token).reservations()
    server.client(token=token, user="other").reservations()
    server.client(token="opaque").reservations()
    assert heads(server) == [("desk", token), ("other", token), ("", "opaque")]


@pytest.mark.parametrize(
    "token", ["", "a.b.c", "a.b", "....", token_for(7), token_for(None), "a.W10.c", f"a.{'é' * 9}.c"]
)
def test_a_token_that_names_nobody_is_no_error(token: str) -> None:
    assert user_of(token) == ""


def test_a_token_file_is_read_at_each_use(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    client = server.client(token="", token_file=str(file))
    for text in ("one.a.b", "SLURM_JWT=two.a.b\n"):  # bare, and as scontrol prints it
        file.write_text(text)
        client.reservations()
    assert [token for _, token in heads(server)] == ["one.a.b", "two.a.b"]


@pytest.mark.parametrize("text", ["", "\n", "two words", "a\nb: c", "\0", "é", "x" * 20_000, '{"token": "x"}'])
def test_a_file_without_a_token_is_said_so_and_not_quoted(server: Server, tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(SlurmUnreachable) as caught:
        server.client(token="", token_file=str(file)).reservations()
    assert caught.value.message == f"{file} holds no token"
    assert server.asked == []


@pytest.mark.parametrize("of", ["token", "token_file"])
def test_an_ended_token_is_said_so_before_slurm_is_asked(server: Server, tmp_path: Path, of: str) -> None:
    ended = token_for("desk", exp=1_600_000_000)
    file = tmp_path / "token"
    file.write_text(ended)
    client = server.client(token=ended) if of == "token" else server.client(token="", token_file=str(file))
    with pytest.raises(SlurmUnreachable, match=r"the token ended at 2020-09-13 12:26:40 UTC") as caught:
        client.reservations()
    assert caught.value.permanent
    assert ended not in str(caught.value)
    assert server.asked == []


@pytest.mark.parametrize("ends_in", [3600, -rest_auth.RENEW_S / 2], ids=["holds", "ended just now"])
def test_a_token_that_may_hold_by_slurms_clock_is_sent(server: Server, ends_in: float) -> None:
    token = token_for("desk", exp=time.time() + ends_in)
    server.client(token=token).reservations()
    assert [sent for _, sent in heads(server)] == [token]


@pytest.mark.parametrize("exp", [None, "soon", True, [], 1e300, float("nan"), -1e18])
def test_an_end_that_can_not_be_read_is_none(exp: object) -> None:
    assert end_of(token_for("desk", exp=exp)) is None


def test_a_file_that_is_not_there_names_its_option(tmp_path: Path) -> None:
    with pytest.raises(SlurmUnreachable, match="token_file") as caught:
        token_from_file(str(tmp_path / "none"))()
    assert caught.value.permanent


def scontrol(folder: Path, script: str) -> None:
    program = folder / "scontrol"
    program.write_text(f'#!/bin/sh\necho "$@" >>{folder}/calls\n{script}\n')
    program.chmod(0o755)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_scontrols_token_is_kept_until_shortly_before_its_end(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol(tmp_path, 'echo "SLURM_JWT=made.$(wc -l <"$(dirname "$0")/calls").x"')
    now = [1000.0]
    monkeypatch.setattr(rest_auth, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for _ in range(2):
        server.client(token="", bin_dir=str(tmp_path)).reservations()
    now[0] += rest_auth.LIFESPAN_S - rest_auth.RENEW_S + 1
    server.client(token="", bin_dir=str(tmp_path)).reservations()
    assert [token for _, token in heads(server)] == ["made.1.x", "made.1.x", "made.2.x"]
    assert calls(tmp_path) == ["token lifespan=1800"] * 2


def test_a_token_for_another_user_is_asked_for_by_name(server: Server, tmp_path: Path) -> None:
    scontrol(tmp_path, "echo SLURM_JWT=a.b.c")
    server.client(token="", bin_dir=str(tmp_path), user="desk").reservations()
    assert calls(tmp_path) == ["token lifespan=1800 username=desk"]
    with pytest.raises(SlurmRefused, match="no user name"):
        server.client(token="", bin_dir=str(tmp_path), user="-x").reservations()


def test_a_refused_token_is_made_anew_the_next_time(server: Server, tmp_path: Path) -> None:
    scontrol(tmp_path, "echo SLURM_JWT=a.b.c")
    server.says(Said(status=401, body=b"Authentication failure", kind="text/plain"))
    client = server.client(token="", bin_dir=str(tmp_path))
    for _ in range(2):
        with pytest.raises(TokenRefused):
            client.reservations()
    assert len(calls(tmp_path)) == 2


@pytest.mark.parametrize("script", ["echo 'no token for you' >&2; exit 1", "echo what", "true"])
def test_scontrol_without_a_token_is_no_answer(server: Server, tmp_path: Path, script: str) -> None:
    scontrol(tmp_path, script)
    with pytest.raises(SlurmUnreachable, match="no token"):
        server.client(token="", bin_dir=str(tmp_path)).reservations()


@pytest.mark.parametrize("name", ["desk\r\nX-Other: 1", "de sk"])
def test_a_hostile_user_name_reaches_no_header(server: Server, name: str) -> None:
    with pytest.raises((SlurmRefused, SlurmUnreachable)):
        server.client(user=name).reservations()
    assert server.asked == []


# --- options ---------------------------------------------------------------------------------------------------------


def test_the_options_make_a_client(tmp_path: Path) -> None:
    assert isinstance(client_for("rest", {"url": "unix:/run/slurmrestd.sock"}, timeout_s=1), RestClient)
    options = {
        "url": "https://slurm-restapi:6820",
        "token_file": "/etc/token",
        "ca_file": "/etc/ca.pem",
        "user": "desk",
    }
    assert isinstance(client_for("rest", options, timeout_s=1), RestClient)
    both = {"url": "http://slurm:6820", "acts_by": "cli", "slurm_conf": "/etc/slurm.conf", "bin_dir": "/opt/slurm/bin"}
    assert isinstance(client_for("rest", both, timeout_s=1), TogetherClient)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs the option url"),
        ({"url": "slurm:6820"}, "neither unix:/path nor http"),
        ({"url": "ftp://slurm"}, "neither unix:/path nor http"),
        ({"url": "http://"}, "neither unix:/path nor http"),
        ({"url": "http://slurm:port"}, "no address"),
        ({"url": "http://root:secret@slurm:6820"}, "no user"),
        ({"url": "http://:secret@slurm:6820"}, "no user"),
        ({"url": "ftp://root:secret@slurm"}, "no user"),
        ({"url": "http://root:secret@slurm:port"}, "no user"),
        ({"url": "http://slurm:6820?x=1"}, "no user, query"),
        ({"url": "unix:run/slurmrestd"}, "no absolute path"),
        ({"url": "http://slurm:6820", "token": "a", "token_file": "b"}, "not both"),
        ({"url": "http://slurm:6820", "acts_by": "pigeon"}, "only cli"),
        ({"url": "http://slurm:6820", "prefix": "ssh 'login"}, "can't be split"),
        ({"url": "http://slurm:6820", "state_dir": "/x"}, "no option 'state_dir'"),
    ],
)
def test_wrong_options_say_what_to_write(options: Mapping[str, str], words: str) -> None:
    with pytest.raises(BadOptions, match=words) as caught:
        client_for("rest", options, timeout_s=1)
    assert "secret" not in str(caught.value)
