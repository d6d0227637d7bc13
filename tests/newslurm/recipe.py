"""What a chroot is made of, in layers; each has a digest, and is made again when that changes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TREE = HERE.parent.parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Edition:
    """A newer Debian, by the release of Slurm that it has. `pyslurm`: whether that can be built against it.

    `rest_versions`: of slurmrestd's API, which the suite runs on beside the newest that this release has.
    """

    suite: str
    release: str
    pyslurm: bool
    rest_versions: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[str, ...]:
        return ("root", "venv", *(("pyslurm",) if self.pyslurm else ()))


# The newest first: it is what runs unless another is named. pyslurm 25.11 does not compile against 24.11.
EDITIONS = (
    Edition(suite="sid", release="26.05", pyslurm=True),
    Edition(suite="trixie", release="24.11", pyslurm=False, rest_versions=("v0.0.40", "v0.0.41")),
)

PACKAGES = (
    *("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurm-client", "munge", "mariadb-server"),
    *("slurm-wlm-jwt-plugin", "slurm-wlm-mysql-plugin", "libslurm-dev"),
    *("python3-dev", "python3-venv", "gcc", "procps", "iproute2", "curl", "ca-certificates"),
)
# A mirror may be a snapshot: its Release file may have expired.
APT_OPTIONS = ('APT::Install-Recommends "false"', 'Acquire::Check-Valid-Until "false"', 'Acquire::Languages "none"')

# Inside the chroot.
WORK_TREE = "/srv/recovery-desk"
PYTHON = "/opt/venv/bin/python"
PYSLURM_PYTHON = "/opt/pyslurm/bin/python"
OLD_LIBRARIES = "/opt/old-libraries"

VENV = f"""
python3 -m venv /opt/venv
/opt/venv/bin/pip install --quiet --require-hashes --only-binary :all: -r {WORK_TREE}/requirements-dev.lock
"""

# pyslurm 25.11 compiles against 26.05, unchanged, with three helps: a version number that it accepts (shim/), the
# wrappers that 26.05 itself has for programs that still give a job by its bare number (SLURM_BACKWARD_COMPAT in
# slurm.h), and two names that 26.05 changed or took away.
PYSLURM = f"""
python3 -m venv /opt/pyslurm
pip="/opt/pyslurm/bin/pip install --quiet --no-deps --require-hashes"
$pip -r {WORK_TREE}/tests/newslurm/pyslurm-build.txt
export SLURM_INCLUDE_DIR={WORK_TREE}/tests/newslurm/shim PYSLURM_BUILD_JOBS=2
export SLURM_LIB_DIR=$(dirname "$(echo /usr/lib/*/slurm-wlm)")
export CFLAGS="-O0 -g0 -w -DSLURM_BACKWARD_COMPAT -Dslurm_free_ctl_conf=slurm_free_conf"
export CFLAGS="$CFLAGS -DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=-1"
$pip --no-build-isolation --no-binary pyslurm -r {WORK_TREE}/tests/newslurm/pyslurm.txt
"""


def digests(edition: Edition) -> dict[str, str]:
    """One for each layer."""
    made = {"root": root_digest(edition), "venv": venv_digest(edition), "pyslurm": pyslurm_digest(edition)}
    return {layer: made[layer] for layer in edition.layers}


def root_digest(edition: Edition) -> str:
    return _digest(edition.suite, *PACKAGES, *APT_OPTIONS)


def venv_digest(edition: Edition) -> str:
    return _digest(root_digest(edition), VENV, (TREE / "requirements-dev.lock").read_text(encoding="utf-8"))


def pyslurm_digest(edition: Edition) -> str:
    files = (HERE / "pyslurm-build.txt", HERE / "pyslurm.txt", HERE / "shim" / "slurm" / "slurm_version.h")
    return _digest(root_digest(edition), PYSLURM, *(file.read_text(encoding="utf-8") for file in files))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
