"""Batch scripts of simulated jobs: what was handed in, or one that says the same; and what a script makes run.

A script carries what it simulates in one comment, `#SIMULATE {…}`, so that a stored script can be submitted again. Of
any other script only `sleep N` and `exit N` are understood.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

from recovery.slurm.base import SlurmRefused, Submission
from recovery.slurm.simulator.codec import decode, encode
from recovery.slurm.simulator.spec import Fault, FaultKind, JobSpec

_SIMULATES = re.compile(r"^#SIMULATE (\{.{1,50000}\})$", re.MULTILINE)
_SLEEPS = re.compile(r"^ *sleep +([0-9]{1,9}(?:\.[0-9]{1,6})?) *$", re.MULTILINE)
_EXITS = re.compile(r"^ *exit +([0-9]{1,3}) *$", re.MULTILINE)
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")


def script_of(spec: JobSpec) -> str:
    """The script that the job was submitted with."""
    if spec.script:
        return spec.script
    options = {
        "job-name": spec.name,
        "nodes": spec.nodes,
        "gpus-per-node": spec.gpus_per_node,
        "output": spec.stdout,
        "open-mode": "append" if spec.append else "truncate",
    }
    lines = ["#!/bin/bash", *(f"#SBATCH --{name}={value}" for name, value in options.items() if value)]
    lines += [f"#SIMULATE {json.dumps(encode(spec))}", f"srun python train_{spec.trainer}.py"]
    return "\n".join(lines) + "\n"


def spec_of(submission: Submission) -> JobSpec:
    """What a submission makes run. Raises SlurmRefused for a script that is none, or that says what can't be."""
    if not submission.script.startswith("#!"):
        message = "This does not look like a batch script. The first line must start with #! followed by the path"
        raise SlurmRefused(f"{message} to an interpreter.", tried="sbatch", permanent=True)
    try:
        return replace(_what_runs(submission), **_overrides(submission))
    except (ValueError, TypeError, KeyError) as error:
        raise SlurmRefused(f"the script can't be simulated: {error}", tried="sbatch", permanent=True) from error


def _what_runs(submission: Submission) -> JobSpec:
    if (told := _SIMULATES.search(submission.script)) is not None:
        return decode(JobSpec, json.loads(told[1]))
    code = next((int(found) for found in _EXITS.findall(submission.script)), 0)
    return JobSpec(
        name=submission.name or "sbatch",
        run=_NO_NAME.sub("_", submission.name or "sbatch")[:100].lstrip("._-") or "sbatch",
        comment="",
        stdout="",
        gpus_per_node=1,
        total_steps=1,
        step_time_s=max(0.01, sum(map(float, _SLEEPS.findall(submission.script)))),
        save_every=0,
        startup_s=0,
        load_s=0,
        warm_up_s=0,
        faults=(Fault(kind=FaultKind.EXIT, exit_code=code, repeat=True),) if code else (),
    )


def _overrides(submission: Submission) -> dict[str, Any]:
    """What the submission says beside the script: it wins, as sbatch's arguments win over #SBATCH lines."""
    given: dict[str, Any] = {
        "name": submission.name,
        "account": submission.account,
        "partition": submission.partition,
        "comment": submission.comment,
        "admin_comment": submission.admin_comment,
        "excluded_nodes": submission.excluded_nodes,
        "time_limit_s": submission.time_limit_s and math.ceil(submission.time_limit_s / 60) * 60.0,  # Slurm's minutes
        "hold": submission.hold,
        "environment": submission.environment,
    }
    always = {"script": submission.script, "user": submission.user, "work_dir": submission.work_dir}
    return always | {name: value for name, value in given.items() if value}
