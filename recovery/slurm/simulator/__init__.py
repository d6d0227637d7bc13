"""A cluster that is simulated: a back end like any other, for the demo (in real time) and for tests (in virtual time).

spec       what is put in: cluster, jobs, faults, workload; frozen
state      what is: plain values that JSON can hold
world      the pure machine: `advance`, and what users and administrators do. Its parts: queue, ending, nodes, training,
           faults with last_words, lines, workload, pause; stage is what they work on
effects    what jobs do to the disk
store      one state file, one lock; safe against being killed at any point
client     SimulatorClient, the product's door;  cluster: SimulatedCluster, everybody else's
demo       the cluster of `make demo`
"""

from recovery.slurm.simulator.client import SimulatorClient
from recovery.slurm.simulator.cluster import SimulatedCluster
from recovery.slurm.simulator.spec import (
    ClusterSpec,
    Fault,
    FaultKind,
    JobSpec,
    NodeSpec,
    PartitionSpec,
    Stream,
    Workload,
    make_nodes,
)
from recovery.slurm.simulator.state import TroubleKind

__all__ = [
    "ClusterSpec",
    "Fault",
    "FaultKind",
    "JobSpec",
    "NodeSpec",
    "PartitionSpec",
    "SimulatedCluster",
    "SimulatorClient",
    "Stream",
    "TroubleKind",
    "Workload",
    "make_nodes",
]
