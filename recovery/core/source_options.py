"""What a cluster's `sources` may hold: where else than in Slurm and logs something is told of its jobs and nodes.

Names and values are texts. Each is checked when it is saved; the message names the option and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit
from zoneinfo import available_timezones


class Source(StrEnum):
    """What is asked now and then, each with a health of its own."""

    PROMETHEUS = "prometheus"
    KERNEL_LOG = "kernel log"
    LOKI = "loki"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One thing that can be set. `kind`: url, path, text, label, query, seconds, zone or choice."""

    kind: str
    sentence: str
    choices: tuple[str, ...] = ()


OPTIONS: dict[str, Option] = {
    "prometheus_url": Option(kind="url", sentence="address of a Prometheus; none: it is not asked"),
    "prometheus_token_file": Option(kind="path", sentence="file with the bearer token that it wants"),
    "prometheus_ca_file": Option(kind="path", sentence="certificates from which its own must come"),
    "prometheus_every_s": Option(kind="seconds", sentence="seconds between two questions (60)"),
    "prometheus_by": Option(
        kind="choice", choices=("node", "job"), sentence="whether series are found by node (default) or by job label"
    ),
    "prometheus_node_label": Option(kind="label", sentence="label that names the node (Hostname)"),
    "prometheus_job_label": Option(kind="label", sentence="label that names the Slurm job (hpc_job)"),
    "prometheus_query_utilisation": Option(kind="query", sentence="PromQL for GPU utilisation in percent"),
    "prometheus_query_power": Option(kind="query", sentence="PromQL for GPU power in watts"),
    "prometheus_query_xid": Option(kind="query", sentence="PromQL for the last Xid"),
    "prometheus_query_network": Option(kind="query", sentence="PromQL for InfiniBand traffic in bytes per second"),
    "prometheus_query_nccl": Option(kind="query", sentence="PromQL for a counter of NCCL; none unless given"),
    "kernel_log": Option(kind="path", sentence="kernel log file; %N stands for the node, else each line names it"),
    "kernel_log_zone": Option(kind="zone", sentence="time zone of lines without one (that of job logs)"),
    "loki_url": Option(kind="url", sentence="address of Loki, or of what answers like it"),
    "loki_token_file": Option(kind="path", sentence="file with the bearer token that it wants"),
    "loki_ca_file": Option(kind="path", sentence="certificates from which its own must come"),
    "loki_tenant": Option(kind="text", sentence="tenant (X-Scope-OrgID)"),
    "loki_query": Option(kind="query", sentence="LogQL for kernel lines"),
    "loki_node_label": Option(kind="label", sentence="label that names the node (host)"),
    "metrics": Option(kind="path", sentence="metrics files of every job: %x, %j, %u; wildcards in the file name"),
    "nvrx_iteration_file": Option(kind="path", sentence="checkpoint iteration file of every job"),
    "nvrx_cycle_dir": Option(kind="path", sentence="cycle information folder of every job"),
}  # fmt: skip
USUAL_EVERY = {Source.PROMETHEUS: 60.0, Source.KERNEL_LOG: 15.0, Source.LOKI: 30.0}  # seconds between two questions
NEEDS = {"prometheus": "prometheus_url", "loki": "loki_url"}
MOST = 2000  # characters of a value
PLACES = ("$nodes", "$jobs")  # one of them stands in each query of Prometheus


class BadSource(ValueError):
    """An option that can't be kept; the message is a sentence for whoever set it."""


def check(sources: Mapping[str, str]) -> None:
    """Raises BadSource for the first option that is wrong."""
    for name, value in sources.items():
        if name not in OPTIONS:
            raise BadSource(f"Source {name[:50]}: there is no such option; choose from: {', '.join(OPTIONS)}.")
        if why := _why_not(name, OPTIONS[name], value):
            raise BadSource(f"Source {name}: {why}")
        needed = NEEDS.get(name.partition("_")[0])
        if needed and not sources.get(needed):
            raise BadSource(f"Source {name}: it means nothing without {needed}: give that, too.")


def active(sources: Mapping[str, str]) -> tuple[Source, ...]:
    """What is to be asked, in the order in which it is shown."""
    asked = {
        Source.PROMETHEUS: "prometheus_url", Source.KERNEL_LOG: "kernel_log", Source.LOKI: "loki_url",
    }  # fmt: skip
    return tuple(source for source, option in asked.items() if sources.get(option))


def every_s(sources: Mapping[str, str], source: Source) -> float:
    """Seconds between two questions to it, as the cluster has it."""
    return float(sources.get(f"{source.value}_every_s") or USUAL_EVERY[source])


def _why_not(name: str, option: Option, value: str) -> str:
    if not value or len(value) > MOST or not value.isprintable():
        return f"give 1 to {MOST} printable characters."
    if option.kind == "choice":
        return "" if value in option.choices else f"give one of: {', '.join(option.choices)}."
    if option.kind == "query" and name.startswith("prometheus") and not any(place in value for place in PLACES):
        return f'it asks for all nodes: put {" or ".join(PLACES)} into it, as Hostname=~"$nodes".'
    if name == "metrics" and any(char in value.rpartition("/")[0] for char in "*?["):
        return "wildcards may stand in the file name only; %x, %j and %u anywhere."
    return _CHECKS[option.kind](value) if option.kind in _CHECKS else ""


def _why_no_path(value: str) -> str:
    good = value.startswith("/") and ".." not in value.split("/")
    return "" if good else 'give an absolute path that starts with "/", without "..".'


def _why_no_label(value: str) -> str:
    good = value.isascii() and value.replace("_", "a").isalnum() and not value[0].isdigit()
    return "" if good else "a label is made of letters, digits and underscores."


def _why_no_seconds(value: str) -> str:
    good = value.isascii() and value.isdigit() and len(value) < 6 and 5 <= int(value) <= 3600
    return "" if good else "give a whole number of seconds from 5 to 3600."


def _why_no_zone(value: str) -> str:
    return "" if value in available_timezones() else "give an IANA name such as Europe/Paris."


def _why_no_url(value: str) -> str:
    if any(char in value for char in "@?#"):  # what stands there may be a secret: it is not repeated
        return "the address may hold no user, query or fragment; a token belongs into a file."
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return "this is no address; write it as https://host:9090."
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "give http(s)://host:port, with the path in front of /api or /loki where there is one."
    return ""


_CHECKS: dict[str, Callable[[str], str]] = {
    "url": _why_no_url, "path": _why_no_path, "label": _why_no_label, "seconds": _why_no_seconds, "zone": _why_no_zone,
}  # fmt: skip
