"""slurmrestd behind TLS: only certificates that the cluster's own file vouches for are spoken to."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.slurm.base import SlurmUnreachable
from recovery.slurm.rest_options import rest_client
from tests.certificates import make_certificate
from tests.slurm.rest_server import Server, serving, whole

pytestmark = pytest.mark.openssl


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds cert.pem and key.pem."""
    made = tmp_path_factory.mktemp("tls")
    make_certificate(made)
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    with serving(Server(), tls=context) as running:
        running.says(whole(reservations=[]))
        yield running


def test_the_file_of_certificates_vouches_for_slurmrestd(server: Server, folder: Path) -> None:
    client = server.client(ca_file=str(folder / "cert.pem"))
    assert client.reservations() == []
    assert server.asked[0].headers["X-SLURM-USER-TOKEN"] == "a.b.c"


def test_a_certificate_that_nobody_vouches_for_gets_no_token(server: Server) -> None:
    with pytest.raises(SlurmUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
        server.client().reservations()
    assert server.asked == []


def test_a_certificate_of_another_host_gets_no_token(server: Server, folder: Path) -> None:
    options = {"url": server.url.replace("127.0.0.1", "localhost"), "token": "a.b.c"}
    with pytest.raises(SlurmUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
        rest_client(options | {"ca_file": str(folder / "cert.pem")}, timeout_s=5).reservations()
    assert server.asked == []


def test_plain_http_to_a_tls_port_is_no_answer(server: Server) -> None:
    with pytest.raises(SlurmUnreachable):
        rest_client({"url": server.url.replace("https", "http"), "token": "a.b.c"}, timeout_s=5).reservations()
