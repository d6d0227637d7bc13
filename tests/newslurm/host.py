"""What this machine offers for the chroot: a mirror of the newer Debian, an index of Python packages, namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from tests.newslurm.recipe import EDITIONS, Edition

# What tells pip and apt how to reach their servers; nothing else of our environment gets into the chroot.
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PIP_OPTIONS = frozenset({"index-url", "extra-index-url", "trusted-host", "default-timeout", "timeout", "retries"})
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, kw_only=True, slots=True)
class Obstacle:
    """Why the suite can't run here. `for_good`: it can't be had on this machine, whatever is installed."""

    words: str
    for_good: bool


def cache_folder(edition: Edition) -> Path:
    """Each edition has its own; that of the newest is the plain one."""
    own = os.environ.get("RECOVERY_NEWSLURM_DIR")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    newest = Path(own).absolute() if own else caches / "recovery-desk" / "newslurm"
    return newest if edition == EDITIONS[0] else newest.with_name(f"{newest.name}-{edition.suite}")


def obstacle(edition: Edition, *, built: bool) -> Obstacle | None:
    """None where the suite can run; a mirror is asked for only where there is something to build."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return Obstacle(words="it builds a chroot, which takes root on Linux", for_good=True)
    missing = [name for name in ("unshare", "setpriv", "chroot", "mount") if not shutil.which(name)]
    if missing:
        return Obstacle(
            words=f"no {', '.join(missing)} here: apt-get install util-linux coreutils mount", for_good=False
        )
    if subprocess.run([*ENCLOSED, "--net", "true"], capture_output=True, check=False, timeout=30).returncode:
        return Obstacle(words="this machine lets nobody mount in a namespace of its own", for_good=True)
    return None if built else _build_obstacle(edition.suite)


def _build_obstacle(suite: str) -> Obstacle | None:
    if not shutil.which("apt-get"):
        return Obstacle(words="the chroot is built on Debian only", for_good=True)
    if not shutil.which("mmdebstrap"):
        return Obstacle(words="no mmdebstrap here: apt-get install mmdebstrap", for_good=False)
    address = mirror()
    if not address:
        return Obstacle(words="no mirror of Debian is among apt's sources", for_good=True)
    try:
        urllib.request.urlopen(f"{address}/dists/{suite}/InRelease", timeout=20).close()  # noqa: S310 (apt's own)
    except (URLError, OSError, ValueError) as error:
        return Obstacle(words=f"the mirror of apt's sources has no Debian {suite} ({error})", for_good=True)
    return None


def mirror() -> str:
    """The mirror that this machine's own Debian comes from; "" where it has none."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60).stdout
    return mirror_of(answer, _os_release().get("VERSION_CODENAME", ""))


def mirror_of(targets: str, release: str) -> str:
    """The place of this release's main archive, among lines of place, release and component."""
    lines = (line.split() for line in targets.splitlines())
    found = (line[0] for line in lines if line[1:] == [release, "main"] and line[0].startswith("http"))
    return next(found, "").rstrip("/")


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}


def pip_settings() -> dict[str, str]:
    """How pip reaches an index from here, as variables for the chroot."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60).stdout
    fixed = {"PIP_CERT": _CERTIFICATES, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return pip_settings_of(answer) | fixed


def pip_settings_of(config: str) -> dict[str, str]:
    """Out of `pip config list`. Places on this machine's disk are left out: they are not in the chroot."""
    settings: dict[str, str] = {}
    for name, _, value in (line.partition("=") for line in config.splitlines()):
        option = name.rpartition(".")[2]
        words = [word for word in value.strip("'\"").replace("\\n", " ").split() if not word.startswith(("file:", "/"))]
        if option in _PIP_OPTIONS and words:
            settings["PIP_" + option.upper().replace("-", "_")] = " ".join(words)
    return settings


def certificates() -> Path | None:
    """The certificates that this machine trusts."""
    named = [os.environ.get("PIP_CERT"), os.environ.get("SSL_CERT_FILE"), _CERTIFICATES]
    return next((Path(file) for file in named if file and Path(file).is_file()), None)


def old_client_library() -> Path | None:
    """MariaDB's client library of Debian 12: slurmdbd ends at an answer that sid's own (11.8) can't read."""
    if _os_release().get("VERSION_CODENAME") != "bookworm":
        return None
    return next(iter(sorted(Path("/usr/lib").glob("*/libmariadb.so.3"))), None)


# Mounts and processes of its own: both are gone when it ends, however that comes, and it ends when we do.
ENCLOSED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"),
)
