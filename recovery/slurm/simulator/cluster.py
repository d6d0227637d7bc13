"""The other side of the simulated cluster: its users, administrators and bad luck. The product never calls this."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from recovery.slurm.simulator.spec import ClusterSpec, JobSpec, Trainer
from recovery.slurm.simulator.state import Reservation, Trouble, TroubleKind
from recovery.slurm.simulator.store import Store, WorldStore
from recovery.slurm.simulator.world import World


class SimulatedCluster:
    """The world in `state_dir`, as those see it who may do everything. Errors are those of SlurmClient."""

    def __init__(self, state_dir: Path, *, clock: Callable[[], datetime], store: WorldStore | None = None) -> None:
        self._store = store or Store(state_dir)
        self._clock = clock
        self.state_dir = state_dir.absolute()

    def create(self, spec: ClusterSpec, *, fill: Callable[[World], None] | None = None) -> bool:
        """Make the world, filled by `fill`. False, and nothing changes, where there is one already."""
        return self._store.create(spec, now=self._clock().timestamp(), fill=fill)

    @contextmanager
    def world(self) -> Iterator[World]:
        """The world as it is now, for anything that has no method of its own; changes are stored."""
        with self._store.open(lambda: self._clock().timestamp()) as world:
            yield world

    def advance(self) -> None:
        """Let the world go on to the present, without asking it anything."""
        with self.world():
            pass

    def submit(self, spec: JobSpec, *, job_id: str | None = None) -> str:
        """sbatch; the job's id. `job_id` gives a new job an id that the controller has forgotten."""
        with self.world() as world:
            return world.submit(spec, job_id=job_id).job_id

    def cancel(self, job_id: str, *, by: str) -> None:
        with self.world() as world:
            world.cancel(job_id, by=by)

    def admin_requeue(self, job_id: str, *, hold: bool = False) -> None:
        with self.world() as world:
            world.requeue(job_id, hold=hold)

    def admin_hold(self, job_id: str) -> None:
        """Hold a pending job as an administrator: its owner may not release it."""
        with self.world() as world:
            world.hold(job_id, by_admin=True)

    def fail_node(self, name: str, *, reason: str = "broken", by: str = "root") -> None:
        """Down at once: `scontrol update nodename=… state=down`."""
        with self.world() as world:
            world.fail_node(name, reason=reason, by=by)

    def crash_node(self, name: str, *, back_after_s: float = 0) -> None:
        """Power cut; Slurm notices after the node time-out. The node is back so long after that (0: never)."""
        with self.world() as world:
            world.crash_node(name, back_after_s=back_after_s)

    def crash_rack(self, rack: str, *, within_s: float = 2, back_after_s: float = 0) -> None:
        """The switch or the power feed of a rack fails: all of its nodes die within a moment."""
        with self.world() as world:
            world.crash_rack(rack, within_s=within_s, back_after_s=back_after_s)

    def reserve(self, reservation: Reservation) -> None:
        with self.world() as world:
            world.reserve(reservation)

    def drain_node(self, name: str, *, reason: str = "maintenance", by: str = "root") -> None:
        with self.world() as world:
            world.drain_node(name, reason=reason, by=by)

    def restore_node(self, name: str) -> None:
        with self.world() as world:
            world.restore_node(name)

    def put_checkpoint(self, run: str, step: int, *, shards: int = 2, trainer: Trainer = Trainer.MEGATRON) -> None:
        """A complete checkpoint from before; the next job of the run resumes from it."""
        with self.world() as world:
            world.put_checkpoint(run, step, shards=shards, trainer=trainer)

    def lose_checkpoint(self, run: str, step: int) -> None:
        """Somebody deletes the folder; the tracker file still names it."""
        with self.world() as world:
            world.remove_checkpoint(run, step)

    def be_in_trouble(self, kind: TroubleKind, *, for_s: float = math.inf, operations: tuple[str, ...] = ()) -> None:
        """Let the scheduler fail in that way for so long, for those SlurmClient methods only (none given: for all)."""
        until = min(self._clock().timestamp() + for_s, 1e12)  # JSON knows no infinity
        with self.world() as world:
            world.state.trouble = Trouble(kind=kind, until=until, operations=operations)

    def be_well(self) -> None:
        with self.world() as world:
            world.state.trouble = None

    def log_path(self, job_id: str) -> Path:
        with self.world() as world:
            return Path(world.stdout_path(world.job(job_id, tried=f"log of job {job_id}")))

    def checkpoint_dir(self, run: str) -> Path:
        with self.world() as world:
            return self.state_dir / world.run_folder(run)
