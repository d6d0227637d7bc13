"""A cluster that is simulated: a back end like any other, for the demo (in real time) and for tests (in virtual time).

spec       what is put in: cluster, jobs, faults, workload; frozen
state      what is: plain values that JSON can hold
world      the pure machine: `advance`; orders is what users and administrators do to it. Its parts: queue, placement,
           arrays, ending, nodes, training, faults with last_words, lines, workload, pause; stage is what they work on
trainers   what each trainer prints and which files its checkpoints have;  scripts: what a batch script makes run
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
    Preempt,
    ReservationSpec,
    Stream,
    Trainer,
    Workload,
    make_nodes,
)
from recovery.slurm.simulator.state import Reservation, TroubleKind
from recovery.slurm.simulator.store import LiveStore

__all__ = [
    "ClusterSpec",
    "Fault",
    "FaultKind",
    "JobSpec",
    "LiveStore",
    "NodeSpec",
    "PartitionSpec",
    "Preempt",
    "Reservation",
    "ReservationSpec",
    "SimulatedCluster",
    "SimulatorClient",
    "Stream",
    "Trainer",
    "TroubleKind",
    "Workload",
    "make_nodes",
]
