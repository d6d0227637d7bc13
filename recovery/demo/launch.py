"""srun's stand-in: starts the ranks of the reference trainer as processes of this machine, for a try without Slurm.

    python3 launch.py --ranks 4 --nodes 2 --checkpoint-dir /tmp/ckpt --steps 40

Each rank gets what srun would tell it: its number, how many there are, and the name of its node (n1, n2, …; all of them
are this machine). The first rank that ends badly ends all, as `srun --kill-on-bad-exit` does. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TRAINER = Path(__file__).with_name("trainer.py")
GRACE_S = 4.0  # for the other ranks to notice, and to say so


def launch(ranks: int, nodes: int, arguments: Sequence[str]) -> int:
    """Run the trainer to its end; the exit code of the lowest rank that ended badly (negative: its signal), or 0."""
    env = os.environ | {"SLURM_NTASKS": str(ranks), "SLURM_JOB_ID": f"local{os.getpid()}"}
    processes = []
    for rank in range(ranks):
        place = {"SLURM_PROCID": str(rank), "SLURMD_NODENAME": f"n{1 + rank * nodes // ranks}"}
        processes.append(subprocess.Popen([sys.executable, str(TRAINER), *arguments], env=env | place))
    try:
        _await_end(processes)
    finally:
        for process in processes:
            process.kill()
    return next((code for process in processes if (code := process.wait())), 0)


def _await_end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = None
    while None in (codes := [process.poll() for process in processes]):
        if any(codes) and deadline is None:
            deadline = time.monotonic() + GRACE_S
        if deadline is not None and time.monotonic() > deadline:
            return
        time.sleep(0.02)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Run the reference trainer without Slurm; the rest is for it.")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=1, help="node names among the ranks (default %(default)s)")
    args, arguments = parser.parse_known_args(argv)
    return launch(args.ranks, args.nodes, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
