"""Whether what a scenario names is there: nodes, racks, partitions, jobs and runs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from recovery.core.comment import parse_comment
from recovery.simulation.scenario import PlannedJob
from recovery.simulation.tables import Table
from recovery.slurm.simulator import ClusterSpec, JobSpec

SHOWN = 5


class Names:
    """All that can be named. Each check complains of what isn't there; of "" and () never."""

    def __init__(self, *, cluster: ClusterSpec | None, jobs: Sequence[PlannedJob] | None) -> None:
        """None: they could not be read, and nothing is said of their names."""
        self._cluster = cluster
        self._jobs = None if jobs is None else {job.spec.name for job in jobs}
        self._runs = None if jobs is None else {run for job in jobs for run in _runs_of(job.spec)}

    def check_job(self, table: Table, field: str, name: str) -> None:
        if name and self._jobs is not None and name not in self._jobs:
            remedy = _remedy(name, self._jobs)
            table.complain(field, f"there is no job {name!r}; name one of the [[job]] tables{remedy}.")

    def check_run(self, table: Table, field: str, name: str) -> None:
        if name and self._runs is not None and name not in self._runs:
            remedy = _remedy(name, self._runs)
            table.complain(field, f"there is no run {name!r}; name one of the [[job]] tables{remedy}.")

    def check_nodes(self, table: Table, field: str, names: Sequence[str]) -> None:
        if self._cluster is None:
            return
        known = {node.name for node in self._cluster.nodes}
        for name in sorted(set(names) - known):
            first, last = self._cluster.nodes[0].name, self._cluster.nodes[-1].name
            table.complain(field, f"there is no node {name!r}; they are called {first} to {last}.")

    def check_rack(self, table: Table, field: str, name: str) -> None:
        racks = sorted({node.rack for node in self._cluster.nodes} - {""}) if self._cluster else [name]
        if name and name not in racks:
            known = f"they are {', '.join(racks)}" if racks else "set cluster.per_rack"
            table.complain(field, f"there is no rack {name!r}; {known}.")


def check_places(table: Table, spec: JobSpec, cluster: ClusterSpec | None) -> None:
    """Complain of a partition or node of the job that isn't there."""
    if cluster is None:
        return
    if cluster.partition(spec.partition) is None:
        known = ", ".join(partition.name for partition in cluster.partitions)
        table.complain("partition", f"there is no partition {spec.partition!r}; the cluster has {known}.")
    names = Names(cluster=cluster, jobs=None)
    names.check_nodes(table, "excluded_nodes", spec.excluded_nodes)
    names.check_nodes(table, "required_nodes", spec.required_nodes)
    names.check_nodes(table, "fault.node", [fault.node for fault in spec.faults if fault.node])


def _runs_of(spec: JobSpec) -> set[str]:
    """What the desk may call the job's run: what its comment names, else the job's name."""
    return {spec.name, spec.run_key, parse_comment(spec.comment or "").run} - {""}


def _remedy(name: str, known: set[str]) -> str:
    """The names that there are, the most alike first."""
    alike = get_close_matches(name, sorted(known), n=1)
    listed = [*alike, *sorted(known - set(alike))]
    more = ", …" if len(listed) > SHOWN else ""
    return f": {', '.join(listed[:SHOWN])}{more}" if listed else ""
