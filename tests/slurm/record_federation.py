"""Record what the two clusters of a real federation answer: tests/slurm/recorded/22.05/federation/.

    .venv/bin/python -m tests.slurm.record_federation

It brings up the labs of federation_lab.py by itself, and ends them. `fa` is the origin of three jobs: one that runs on
`fb`, one that failed there, one that waits. `fb` runs a job of its own, of which `fa` is left a record without an id.
"""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from recovery.demo.lab import SlurmLab
from recovery.demo.processes import wait_until
from recovery.slurm import cli_federation, cli_squeue, sacct
from tests.slurm import record
from tests.slurm.federation_lab import SLEEPS, Federation, labs, shown

FOLDER = Path(__file__).parent / "recorded" / "22.05" / "federation"
FAILS = "#!/bin/sh\nexit 3\n"


def main() -> None:
    with labs() as fed, tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        jobs = make_history(fed, Path(folder))
        own = {str(fed.a.root): "/lab", str(fed.b.root): "/lab", folder: "/home/ada", socket.gethostname(): "host"}
        for lab in (fed.a, fed.b):
            for name, text in answers(lab, jobs).items():
                write(f"{lab.spec.cluster}_{name}", text, own)
        write("jobs.txt", "".join(f"{kind} {job}\n" for kind, job in jobs.items()), own)


def make_history(fed: Federation, folder: Path) -> dict[str, str]:
    fed.steer_to(fed.b)
    jobs = {"failed": fed.submit(fed.a, FAILS, folder)}
    assert wait_until(lambda: shown(fed.b, jobs["failed"], "State") == "FAILED", timeout_s=20)
    jobs["running"] = fed.submit(fed.a, SLEEPS, folder)
    jobs["own"] = fed.submit(fed.b, SLEEPS, folder)
    jobs["waiting"] = fed.submit(fed.a, SLEEPS, folder, "--time=60")
    ours = jobs["running"], jobs["own"]
    assert wait_until(lambda: {shown(fed.b, job, "State") for job in ours} == {"RUNNING"}, timeout_s=20)
    assert wait_until(lambda: shown(fed.a, "4294967294", "State") == "REVOKED", timeout_s=20)
    assert wait_until(lambda: "REVOKED" in past(fed.a, jobs) and "RUNNING" in past(fed.b, jobs), timeout_s=20)
    return jobs


def past(lab: SlurmLab, jobs: dict[str, str]) -> str:
    return lab.run("sacct", *sacct.arguments(sorted(jobs.values()), since=datetime(2020, 1, 1, tzinfo=UTC)))


def answers(lab: SlurmLab, jobs: dict[str, str]) -> dict[str, str]:
    env = lab.env | {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
    fields = ",".join(f"{field}:0{record.SEPARATOR}" for field in cli_squeue.FIELDS.values())
    asked = ["squeue", *cli_squeue.OPTIONS]
    rest = ["curl", "-s", "--unix-socket", lab.rest_urls[0].removeprefix("unix:")]
    url = "http://localhost/slurm/v0.0.38"
    return {
        "squeue.txt": run(asked, env | {cli_squeue.FORMAT_VARIABLE: fields}),
        "excluded.txt": run([*asked, f"--format={cli_squeue.EXCLUDED_FORMAT}"], env),
        "places.txt": run([*asked, cli_federation.FORMAT], env),
        "squeue.json": run([*asked, "--json"], env),
        "sacct.txt": past(lab, jobs),
        "federation.txt": run([*cli_federation.SHOW], env),
        "rest_jobs.json": run([*rest, f"{url}/jobs"], env),
        "rest_job.json": run([*rest, f"{url}/job/{jobs['running']}"], env),
    }


def run(argv: list[str], env: dict[str, str]) -> str:
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=False).stdout


def write(name: str, text: str, own: dict[str, str]) -> None:
    """Without indentation, and without what tells of the machine."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if name.endswith(".json"):
        text = re.sub(r"\n\s*", "", text) + "\n"
    for word, ours in own.items():
        text = text.replace(word, ours).replace(word.replace("/", "\\/"), ours.replace("/", "\\/"))
    (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
