"""A certificate for 127.0.0.1 that vouches for itself, made by openssl. Tests that use it are marked `openssl`."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """cert.pem and key.pem in `folder`."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key)]
    name = ["-subj", "/CN=loopback", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    argv = ["openssl", "req", "-x509", *kind, *name, "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True, timeout=20)
    return certificate, key
