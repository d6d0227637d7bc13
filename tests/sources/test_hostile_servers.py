"""A site's Prometheus or Loki that is broken, or wants harm: it costs bounded time and memory, and has a remedy."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recovery.sources import http_get, loki, prometheus
from recovery.sources.http_get import Server, Trouble
from tests.certificates import make_certificate
from tests.sources.site_server import Site, running_site

NOW = datetime(2026, 1, 11, 12, 0, tzinfo=UTC)


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as found:
        yield found


def measured(site: Site, result: Any) -> list[tuple[str, float]]:
    site.answer = lambda path, given: (200, {"status": "success", "data": {"resultType": "vector", "result": result}})
    found = prometheus.measure({"prometheus_url": site.url}, nodes=["n1"], jobs=[], now=NOW)
    return [(each.node, each.value) for each in found if each.name == "utilisation"]


# --- what is answered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "series",
    [
        {"metric": [], "value": [1, "2"]},
        {"metric": "Hostname", "value": [1, "2"]},
        {"metric": None, "value": [1, "2"]},
        {"metric": {"Hostname": "n1"}, "value": {"0": 1}},
        {"metric": {"Hostname": "n1"}, "value": [1, "2", "3"]},
        {"metric": {"Hostname": "n1"}, "value": [1, []]},
        {"metric": {"Hostname": "n1"}, "value": ["NaN", "2"]},
        {"metric": {"Hostname": "n1"}, "value": [1e300, "2"]},
        {"metric": {"Hostname": "n1"}, "value": [1, "NaN"]},
        {"metric": {"Hostname": "n1"}, "value": [1, "+Inf"]},
        {"metric": {"Hostname": "n1"}, "value": [1, "1e308"]},
        {"metric": {"Hostname": "n1"}, "value": [1, "-1e300"]},
        {"metric": {"Hostname": {"a": "n1"}}, "value": [1]},
        None,
        [],
        "text",
    ],
)
def test_a_series_of_any_other_shape_is_passed_over_and_spoils_no_other(series: Any, site: Site) -> None:
    good = {"metric": {"Hostname": "n1"}, "value": [NOW.timestamp(), "97"]}
    assert measured(site, [series, good]) == [("n1", 97.0)]


def test_of_more_series_than_any_site_has_some_are_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MOST_SERIES", 10)
    series = [{"metric": {"Hostname": f"n{n}"}, "value": [NOW.timestamp(), "1"]} for n in range(50)]
    assert len(measured(site, series)) == 10


@pytest.mark.parametrize(
    "stream",
    [
        {"stream": [], "values": [["1", "x"]]},
        {"stream": {}, "values": {"1": "x"}},
        {"stream": {}, "values": [[None, "x"]]},
        {"stream": {}, "values": [["1" * 40, "x"]]},
        {"stream": {}, "values": [["-9" * 9, "x"]]},
        {"stream": {"host": ["n1"]}, "values": ["ab", 7]},
        {"stream": None},
        None,
        7,
    ],
)
def test_a_stream_of_any_other_shape_is_passed_over_and_spoils_no_other(stream: Any, site: Site) -> None:
    good = {"stream": {"host": "n1"}, "values": [[f"{int(NOW.timestamp())}000000000", "NVRM: Xid"]]}
    data = {"status": "success", "data": {"resultType": "streams", "result": [stream, good]}}
    site.answer = lambda path, given: (200, data)
    lines, _ = loki.read_lines({"loki_url": site.url}, since=NOW, until=NOW)
    assert ("n1", "NVRM: Xid") in [(line.node, line.text) for line in lines]


def test_what_is_compressed_is_not_unpacked(site: Site) -> None:
    """A megabyte of such an answer can be a gigabyte in memory; it was not asked for."""
    site.headers = {"Content-Encoding": "gzip"}
    site.answer = lambda path, given: (200, gzip.compress(b" " * 50_000_000))
    with pytest.raises(Trouble, match="no JSON"):
        http_get.ask(Server(name="prometheus", url=site.url), "/")


def test_a_number_of_a_million_digits_is_no_answer(site: Site) -> None:
    site.answer = lambda path, given: (200, b'{"status": "success", "data": ' + b"9" * 1_000_000 + b"}")
    with pytest.raises(Trouble, match="no JSON"):
        http_get.ask(Server(name="prometheus", url=site.url), "/")


# --- how it is answered ----------------------------------------------------------------------------------------------


@contextmanager
def dripping(*, head: bytes, every_s: float) -> Iterator[str]:
    """An address that sends `head`, and then a byte of a header now and then, for ever."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                connection.sendall(head)
                while not over.wait(every_s):
                    connection.sendall(b"x")
            except OSError:
                pass  # who asked went away

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        thread.join(5)
        listening.close()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n"])
def test_an_answer_that_drips_is_given_up_in_time(head: bytes) -> None:
    with dripping(head=head, every_s=0.02) as url:
        began = time.monotonic()
        with pytest.raises(Trouble, match=r"no whole answer within 0\.3 s"):
            http_get.ask(Server(name="loki", url=url), "/", timeout_s=0.3)
        assert time.monotonic() - began < 3


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def behind_tls(certificate: tuple[Path, Path]) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with running_site(tls=context) as found:
        yield found


@pytest.mark.openssl
@pytest.mark.parametrize("name", ["prometheus", "loki"])
def test_the_sites_own_certificates_vouch_for_its_server(
    name: str, behind_tls: Site, certificate: tuple[Path, Path]
) -> None:
    http_get.ask(Server(name=name, url=behind_tls.url, ca_file=str(certificate[0])), "/")
    assert len(behind_tls.asked) == 1


@pytest.mark.openssl
@pytest.mark.parametrize("name", ["prometheus", "loki"])
def test_a_certificate_that_nobody_vouches_for_gets_no_token_and_a_remedy(
    name: str, behind_tls: Site, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret")
    with pytest.raises(Trouble) as raised:
        http_get.ask(Server(name=name, url=behind_tls.url, token_file=str(tmp_path / "token")), "/")
    assert "certificate" in raised.value.sentence
    assert f"{name}_ca_file" in raised.value.remedy
    assert behind_tls.asked == []


@pytest.mark.openssl
def test_a_certificate_of_another_name_is_refused(behind_tls: Site, certificate: tuple[Path, Path]) -> None:
    url = behind_tls.url.replace("127.0.0.1", "localhost")
    with pytest.raises(Trouble, match="certificate"):
        http_get.ask(Server(name="loki", url=url, ca_file=str(certificate[0])), "/")
    assert behind_tls.asked == []


@pytest.mark.openssl
def test_a_file_that_holds_no_certificates_is_said(behind_tls: Site, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(Trouble) as raised:
        http_get.ask(Server(name="loki", url=behind_tls.url, ca_file=str(tmp_path / "ca.pem")), "/")
    assert (str(tmp_path / "ca.pem") in raised.value.sentence, "loki_ca_file" in raised.value.remedy) == (True, True)
