"""GPU and network readings from Prometheus, by its HTTP API: instant queries, one for all nodes or jobs asked about.

Default queries are for NVIDIA's dcgm-exporter (labels `Hostname` and, where job mapping is on, `hpc_job`) and
node_exporter's InfiniBand collector (label `instance`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from recovery.sources.http_get import Server, Trouble, ask

CHUNK = 300  # nodes or jobs of one question: a query is a text of some 10 kB then
MOST_SERIES = 20_000
DEFAULTS = {
    "utilisation": "avg by ($by) (DCGM_FI_DEV_GPU_UTIL{$select})",
    "power": "avg by ($by) (DCGM_FI_DEV_POWER_USAGE{$select})",
    "xid": "max by ($by) (DCGM_FI_DEV_XID_ERRORS{$select})",
    "network": 'sum by (instance) (rate(node_infiniband_port_data_transmitted_bytes_total{instance=~"$nodes"}[2m]))',
    "nccl": "",
}
LARGEST = 1e15  # bytes per second, watts, codes: what is beyond is no reading, and its mean would be no number
NODE_LABELS = ("instance", "node", "nodename", "hostname", "host")  # where a query of the site's own gives others


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One value. `job` is "" unless the series names one."""

    name: str
    node: str
    value: float
    at: datetime
    job: str = ""


def measure(
    sources: Mapping[str, str], *, nodes: Sequence[str], jobs: Sequence[str], now: datetime,
    go_on: Callable[[], bool] = lambda: True,
) -> list[Measured]:  # fmt: skip
    """What Prometheus has of these nodes (or jobs) at `now`. Raises Trouble, also once `go_on` says no."""
    server, by_job = Server.of("prometheus", sources), sources.get("prometheus_by") == "job"
    asked = jobs if by_job else nodes
    found: list[Measured] = []
    for start in range(0, len(asked), CHUNK):
        some = asked[start : start + CHUNK]
        for name, default in DEFAULTS.items():
            query = sources.get(f"prometheus_query_{name}") or default
            if not query or (by_job and "$nodes" in query):
                continue
            if not go_on():
                raise _too_slow(server, start, asked, what="jobs" if by_job else "nodes")
            text = fill(query, sources, nodes=() if by_job else some, jobs=some if by_job else ())
            answer = ask(server, "/api/v1/query", form={"query": text, "time": f"{now.timestamp():.3f}"})
            found += _vector(name, answer, sources)
    return found


def _too_slow(server: Server, done: int, asked: Sequence[str], *, what: str) -> Trouble:
    return Trouble(
        f"{server.url} answers too slowly: of {len(asked)} {what} {done} were asked about in the time that there is.",
        "Let the options that begin with prometheus_query name recording rules, which Prometheus answers at once.",
    )


def fill(query: str, sources: Mapping[str, str], *, nodes: Sequence[str], jobs: Sequence[str]) -> str:
    """The query with $nodes, $jobs, $by and $select filled in; names can't end the string or widen the pattern."""
    node_label = sources.get("prometheus_node_label") or "Hostname"
    job_label = sources.get("prometheus_job_label") or "hpc_job"
    by_job = bool(jobs)
    values = {
        "nodes": _any_of(nodes, r"(?:[.:].*)?"),  # a host's full name, or with the exporter's port
        "jobs": _any_of(jobs, ""),
        "by": f"{node_label}, {job_label}" if by_job else node_label,
    }
    select = f'{job_label}=~"{values["jobs"]}"' if by_job else f'{node_label}=~"{values["nodes"]}"'
    return re.sub(r"\$(nodes|jobs|by|select)\b", lambda found: (values | {"select": select})[found[1]], query)


def _any_of(names: Sequence[str], ending: str) -> str:
    """A pattern for exactly these names, as it stands within the quotes of PromQL."""
    pattern = f"(?:{'|'.join(re.escape(name) for name in names)}){ending}"
    return pattern.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _vector(name: str, data: Any, sources: Mapping[str, str]) -> Iterator[Measured]:
    if not isinstance(data, dict) or data.get("resultType") != "vector" or not isinstance(data.get("result"), list):
        remedy = f"Let prometheus_query_{name} give an instant vector."
        raise Trouble(f"Prometheus answers the query {name} with something else than a vector.", remedy)
    labels = (sources.get("prometheus_node_label") or "Hostname", *NODE_LABELS)
    for series in data["result"][:MOST_SERIES]:
        try:
            metric, (at, text) = series["metric"], series["value"]
            value, when = float(text), datetime.fromtimestamp(float(at), UTC)
            node = next((str(metric[label]) for label in labels if metric.get(label)), "")
            job = str(metric.get(sources.get("prometheus_job_label") or "hpc_job") or "")
        except (KeyError, TypeError, ValueError, OverflowError, OSError, AttributeError):
            continue
        if abs(value) <= LARGEST:  # nor is what is no number
            yield Measured(name=name, node=re.split(r"[.:]", node, maxsplit=1)[0], value=value, at=when, job=job)
