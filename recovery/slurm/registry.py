"""The back ends by name, with the options that each takes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from recovery.slurm import rest_options
from recovery.slurm.base import SlurmClient
from recovery.slurm.cli import CliClient
from recovery.slurm.native import NativeClient
from recovery.slurm.simulator import SimulatorClient
from recovery.slurm.together import Half, TogetherClient

_CLI = ("slurm_conf", "bin_dir", "prefix")
OPTIONS: dict[str, tuple[str, ...]] = {
    "cli": _CLI,
    "rest": (*rest_options.OPTIONS, "acts_by", *_CLI),
    "native": ("slurm_conf", "bin_dir", "python"),
    "simulator": ("state_dir",),
}


class BadOptions(ValueError):
    """A back end or an option that there is not; the message names the remedy."""


def client_for(backend: str, options: Mapping[str, object], *, timeout_s: float) -> SlurmClient:
    """A client for one cluster, as its row in the database describes it. Makes no call. Raises BadOptions.

    "cli": `slurm_conf` (the cluster's slurm.conf, default Slurm's own), `bin_dir` (folder of Slurm's commands) and
    `prefix` (what runs them on another machine: "ssh -o BatchMode=yes login1");
    "rest": see rest_options.py; with `acts_by` = "cli", and that one's options beside, the commands act and give what
    slurmrestd doesn't have;
    "native": `slurm_conf` and `bin_dir` as for "cli", `python` (the interpreter that has pyslurm, default our own);
    "simulator": `state_dir`, required.
    """
    texts = _checked(backend, options)
    if backend == "cli":
        return _cli(texts, timeout_s=timeout_s)
    if backend == "rest":
        return _rest(texts, timeout_s=timeout_s)
    if backend == "native":
        return NativeClient(**texts, timeout_s=timeout_s)
    if "state_dir" not in texts:
        raise BadOptions("A simulated cluster needs the option state_dir: the folder of its world.")
    return SimulatorClient(Path(texts["state_dir"]), clock=lambda: datetime.now(UTC))


def _cli(texts: Mapping[str, str], *, timeout_s: float) -> CliClient:
    try:
        return CliClient(**texts, timeout_s=timeout_s)
    except ValueError as error:  # a quote that is not closed
        raise BadOptions(f"Option prefix of the back end cli can't be split into words: {error}.") from error


def _rest(texts: Mapping[str, str], *, timeout_s: float) -> SlurmClient:
    wrong = rest_options.why_not(texts)
    if wrong:
        raise BadOptions(wrong)
    reads = rest_options.rest_client(texts, timeout_s=timeout_s)
    acts_by = texts.get("acts_by", "")
    if not acts_by:
        return reads
    if acts_by != "cli":
        raise BadOptions(f"Option acts_by of the back end rest is {acts_by!r}: only cli can act beside it.")
    acts = _cli({name: value for name, value in texts.items() if name in _CLI}, timeout_s=timeout_s)
    return TogetherClient(reads=Half(name="slurmrestd", client=reads), acts=Half(name="the commands", client=acts))


def _checked(backend: str, options: Mapping[str, object]) -> dict[str, str]:
    if backend not in OPTIONS:
        raise BadOptions(f"There is no back end {backend!r}: use one of {', '.join(OPTIONS)}.")
    known = OPTIONS[backend]
    for name, value in options.items():
        if name not in known:
            raise BadOptions(f"The back end {backend} has no option {name!r}: it takes {', '.join(known)}.")
        if not isinstance(value, str):
            raise BadOptions(f"Option {name} of the back end {backend} is not text: give text.")
    return {name: str(value) for name, value in options.items() if value}
