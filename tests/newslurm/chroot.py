"""Building the chroot and running commands in it. One build at a time; nobody builds while somebody runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.newslurm import host, recipe

# $1 root, $2 work tree, $3 "rw" or "ro", the rest a command. Everything that is mounted here is gone with the command.
_ENTER = f"""
root=$1 tree=$2 how=$3; shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
for file in /etc/hosts /etc/resolv.conf; do [ ! -e "$file" ] || mount --bind "$file" "$root$file"; done
mount --bind "$tree" "$root{recipe.WORK_TREE}"
mount -o remount,bind,ro "$root{recipe.WORK_TREE}"
[ "$how" = rw ] || mount -o remount,bind,ro "$root"
cd "$root" && exec chroot "$root" sh -c 'cd {recipe.WORK_TREE} && exec "$@"' sh "$@"
"""
# A name is only resolved where some interface has an address that is no loopback's (AI_ADDRCONFIG in getaddrinfo(3)):
# one of those that are kept for documentation does, and leads nowhere.
_LOOPBACK = 'ip link set lo up; ip address add 192.0.2.1/32 dev lo; exec "$@"'
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class BuildError(Exception):
    """The chroot could not be built; the message tells at which step, with the last of what that wrote."""


class Chroot:
    """The chroot in `folder`. Files beside it: a lock, and one digest for each layer that is complete."""

    def __init__(self, folder: Path, edition: recipe.Edition) -> None:
        self.folder = folder
        self.edition = edition
        self.root = folder / "root"

    def is_complete(self) -> bool:
        return all(self._is_made(layer, digest) for layer, digest in recipe.digests(self.edition).items())

    def build(self) -> None:
        """Make the layers that are missing or made from another recipe. BuildError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_EX):
            layers = recipe.digests(self.edition)
            if not self._is_made("root", layers["root"]):
                self._build_root()
                self._mark("root", layers["root"])
            scripts = {"venv": recipe.VENV, "pyslurm": recipe.PYSLURM}
            missing = [layer for layer in scripts if layer in layers and not self._is_made(layer, layers[layer])]
            builds = {layer: self._start_layer(layer, scripts[layer]) for layer in missing}
            self._finish(builds, layers)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Nobody builds it anew in the meantime."""
        with self._locked(fcntl.LOCK_SH):
            yield

    def command(self, *argv: str, writable: bool = False, network: bool = False) -> list[str]:
        """The command that runs `argv` inside, in the work tree. Give it an environment of its own (see `env`).

        Without `network` it has a loopback interface of its own, and no other.
        """
        apart = [] if network else ["--net"]
        inner = argv if network else ("sh", "-ec", _LOOPBACK, "sh", *argv)
        how = "rw" if writable else "ro"
        return [*host.ENCLOSED, *apart, "sh", "-ec", _ENTER, "sh", str(self.root), str(recipe.TREE), how, *inner]

    @staticmethod
    def env(**more: str) -> dict[str, str]:
        return {"PATH": PATH, "HOME": "/tmp", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **more}

    def slurm_release(self) -> str:
        """ "26.05.5"."""
        asked = self.command("slurmctld", "-V")
        answer = subprocess.run(asked, env=self.env(), capture_output=True, text=True, check=False, timeout=60).stdout
        return answer.split()[-1] if answer.split() else "unknown"

    # --- the layers --------------------------------------------------------------------------------------------------

    def _is_made(self, layer: str, digest: str) -> bool:
        mark = self.folder / f"{layer}.made"
        return mark.exists() and mark.read_text(encoding="utf-8") == digest

    def _mark(self, layer: str, digest: str) -> None:
        (self.folder / f"{layer}.made").write_text(digest, encoding="utf-8")

    def _build_root(self) -> None:
        for layer in self.edition.layers:
            (self.folder / f"{layer}.made").unlink(missing_ok=True)
        draft = self.folder / "root.draft"
        for old in (draft, self.root):
            _remove(old)
        options = [f"--aptopt={option}" for option in recipe.APT_OPTIONS]
        source = f"deb {host.mirror()} {self.edition.suite} main"
        made = ["mmdebstrap", "--mode=root", "--variant=apt", "--quiet", *options]
        made += [f"--include={','.join(recipe.PACKAGES)}", self.edition.suite, str(draft), source]
        try:
            self._wait(self._start("root", [*host.ENCLOSED, *made], env=os.environ), "root")
            self._furnish(draft)
            draft.rename(self.root)
        finally:
            _remove(draft)

    @staticmethod
    def _furnish(root: Path) -> None:
        """Places for what is mounted later, and what this machine alone can tell."""
        (root / recipe.WORK_TREE.lstrip("/")).mkdir(parents=True)
        for file in ("etc/hosts", "etc/resolv.conf"):
            (root / file).unlink(missing_ok=True)
            (root / file).touch()
        trusted, library = host.certificates(), host.old_client_library()
        if trusted:
            shutil.copy(trusted, root / "etc/ssl/certs/ca-certificates.crt")
        folder = root / recipe.OLD_LIBRARIES.lstrip("/")
        folder.mkdir(parents=True)
        if library:
            shutil.copy(library, folder / library.name)

    def _start_layer(self, layer: str, script: str) -> subprocess.Popen[bytes]:
        (self.folder / f"{layer}.made").unlink(missing_ok=True)
        _remove(self.root / "opt" / layer)
        proxies = {name: os.environ[name] for name in host.PROXIES if name in os.environ}
        env = self.env(**host.pip_settings(), **proxies)
        return self._start(layer, self.command("sh", "-ec", script, writable=True, network=True), env=env)

    def _start(self, layer: str, argv: Sequence[str], *, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{layer}.log").open("wb") as log:
            return subprocess.Popen(argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _wait(self, build: subprocess.Popen[bytes], layer: str) -> None:
        try:
            code = build.wait(900)
        finally:
            if build.poll() is None:
                build.kill()
                build.wait()
        if code:
            log = (self.folder / f"{layer}.log").read_text(encoding="utf-8", errors="replace")
            raise BuildError(f"Building the {layer} of the chroot ended with {code}:\n{log[-3000:]}")

    def _finish(self, builds: Mapping[str, subprocess.Popen[bytes]], layers: Mapping[str, str]) -> None:
        try:
            for layer, build in builds.items():
                self._wait(build, layer)
                self._mark(layer, layers[layer])
        finally:
            for build in builds.values():
                if build.poll() is None:
                    build.kill()
                    build.wait()

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, how)
            yield


def _remove(folder: Path) -> None:
    """Never through a mount: those of ours are in namespaces that have ended."""
    if folder.exists():
        subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=True, timeout=300)
