"""The demo on a real Slurm: a lab on this machine, teams whose jobs really train, and what befalls them."""

from __future__ import annotations

import hashlib
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recovery.demo import lab_host
from recovery.demo.jobs import TrainingJob, job_script
from recovery.demo.lab import SlurmLab
from recovery.demo.lab_conf import LabError, check_folder
from recovery.demo.scenes import SceneError, Stage

NODES = 8  # two more than the teams need: there is a place to move to
GPUS_PER_NODE = 4  # counted, not there; a job takes all of a node's, so no two share one
STEP_TIME_S = 0.5
SAVE_EVERY = 30  # steps: somebody who approves sees the next checkpoint within half a minute
STEPS = 1_000_000  # nobody watches to the end
POWER_CUT_S = 100.0  # after the start, of a node of the team that has no fault of its own
NODE_BACK_S = 60.0  # after the power cut


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """One run; `fault` strikes `at_s` seconds after the start, in the words of the trainer's --fault."""

    name: str
    nodes: int
    fault: str = ""
    at_s: float = 0


TEAMS = (
    Team(name="llama-70b", nodes=2, fault="kind=ecc,rank=3,attempt=0", at_s=30),
    Team(name="vision-vit-h", nodes=2, fault="kind=hang_rank,rank=1,attempt=0", at_s=60),
    Team(name="rlhf-ppo", nodes=1, fault="kind=traceback", at_s=45),
    Team(name="moe-8x22b", nodes=1),
)
UNLUCKY = "moe-8x22b"


class RealSlurm:
    """Everything is below one folder. A second start finds Slurm's state, and the runs go on from their checkpoints."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lab: SlurmLab | None = None
        self._began = 0.0
        self._dark = ""  # the node whose power was cut
        self._is_over = False  # nothing more befalls anybody

    def up(self, say: Callable[[str], None]) -> Stage:
        try:
            self._lab = lab = self._find_lab()
            lab.up()
            submitted = [team.name for team in TEAMS if self._submit(lab, team)]
        except LabError as error:
            raise SceneError(str(error)) from error
        self._began = time.monotonic()
        say(f"Slurm {lab.run('sinfo', '--version').split()[-1]} with {NODES} nodes in {lab.root}")
        say(f"{len(submitted)} jobs submitted")
        return Stage(name="lab", backend="cli", options=lab.options, hint=hint_of(lab.root))

    def go_on(self) -> None:
        """The power cut, and the node's return."""
        since = time.monotonic() - self._began
        if self._lab is None or self._is_over or since < POWER_CUT_S:
            return
        try:
            self._befall(self._lab, since)
        except LabError as error:
            raise SceneError(str(error)) from error

    def _befall(self, lab: SlurmLab, since: float) -> None:
        if not self._dark:
            self._dark = node_of(lab, UNLUCKY)
            self._is_over = not self._dark
            if self._dark:
                lab.crash_node(self._dark)
        elif since > POWER_CUT_S + NODE_BACK_S:
            lab.start_node(self._dark)
            self._is_over = True

    def down(self) -> None:
        """Raises SceneError."""
        try:
            if self._lab is not None:
                self._lab.down()
        except LabError as error:
            raise SceneError(str(error)) from error

    def _find_lab(self) -> SlurmLab:
        """The lab of an earlier start, on the ports that it had, or a new one."""
        root = lab_folder(self._folder)
        if (root / "lab.json").exists():
            return SlurmLab.existing(root)
        base_port = lab_host.free_base_port()
        return SlurmLab(root, base_port=base_port, nodes=NODES, gpus_per_node=GPUS_PER_NODE)

    def _submit(self, lab: SlurmLab, team: Team) -> bool:
        """Submit the team's job, unless it is there still because an earlier start was killed."""
        if team.name in lab.run("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%j").split():
            return False
        checkpoints, logs = self._folder / "ckpt" / team.name, self._folder / "logs"
        for folder in (checkpoints, logs):
            folder.mkdir(parents=True, exist_ok=True)
        step = newest_step(checkpoints) + round(team.at_s / STEP_TIME_S)
        job = TrainingJob(
            name=team.name,
            checkpoint_dir=checkpoints,
            log=logs / "%x-%j.out",
            nodes=team.nodes,
            gpus_per_node=GPUS_PER_NODE,
            steps=STEPS,
            save_every=SAVE_EVERY,
            step_time_s=STEP_TIME_S,
            faults=[f"{team.fault},step={step}"] if team.fault else [],
            python=sys.executable,
        )
        lab.submit(job_script(job), work_dir=logs)
        return True


def hint_of(root: Path) -> str:
    """Lines for another shell: not every machine's `python` is one that knows this project."""
    command, folder = f"{shlex.quote(sys.executable)} -m recovery.demo.lab", shlex.quote(str(root))
    return (
        f'For its squeue and scontrol: eval "$({command} env {folder})"\n'
        f"Break something yourself: {command} crash-node {folder} n3"
    )


def lab_folder(folder: Path) -> Path:
    """Below the demo's own folder, or a short name below the temporary one where Slurm could not live there."""
    root = folder / "lab"
    try:
        check_folder(root)
        if is_open_to_all(folder):
            return root
    except LabError:
        pass  # too long, or with characters that Slurm reads as its own syntax
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"recovery-desk-lab-{digest}"


def is_open_to_all(folder: Path) -> bool:
    """Whether everybody may pass through: munged refuses a socket in a private home, since all users need it."""
    existing = [path for path in (folder, *folder.parents) if path.exists()]
    return all(path.stat().st_mode & stat.S_IXOTH for path in existing)


def newest_step(checkpoints: Path) -> int:
    """From where the trainer will go on: Megatron's tracker file names it."""
    try:
        return int((checkpoints / "latest_checkpointed_iteration.txt").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def node_of(lab: SlurmLab, job_name: str) -> str:
    """The first node on which the job runs now; "" where it doesn't."""
    nodes = lab.run("squeue", "-h", "-t", "RUNNING", "-n", job_name, "-o", "%N").split()
    return lab.run("scontrol", "show", "hostnames", nodes[0]).split()[0] if nodes else ""
