"""What this installation can see and do, each with the remedy where it can't.

`installation` looks at the product itself, `cluster` at one cluster as the user that we are to Slurm. Both only read,
or try what changes nothing. `stored` keeps a cluster's report for pages and API, which never wait for Slurm.
"""

from recovery.doctor.cluster import examine_cluster
from recovery.doctor.installation import examine_installation
from recovery.doctor.results import Group, Report, Result, State

__all__ = ["Group", "Report", "Result", "State", "examine_cluster", "examine_installation"]
