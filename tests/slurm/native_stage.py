"""A stand-in for pyslurm (fake_pyslurm/) that shows a cluster as a test sets it, and a client on it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from recovery.slurm.native import NativeClient

FAKE = Path(__file__).parent / "fake_pyslurm"


class Stage:
    """A cluster as the stand-in shows it, and a client on it."""

    def __init__(self, folder: Path) -> None:
        self.conf = folder / "slurm.conf"
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nPYTHONPATH={FAKE} exec {sys.executable} "$@"\n')
        self.python.chmod(0o755)

    def set(self, **scene: Any) -> None:
        self.conf.write_text(json.dumps(scene))

    def client(self, *, timeout_s: float = 20) -> NativeClient:
        return NativeClient(slurm_conf=str(self.conf), python=str(self.python), timeout_s=timeout_s)

    def done(self) -> list[list[Any]]:
        file = Path(f"{self.conf}.done")
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def children(stage: Stage) -> list[int]:
    """The running processes of clients of this stage."""
    wanted = f"SLURM_CONF={stage.conf}".encode()
    return [
        pid
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        if wanted in environment(pid).split(b"\0")
    ]


def environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
