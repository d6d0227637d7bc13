"""Record what a real slurmrestd answers, for the tests over answers: tests/slurm/recorded/rest-RELEASE/VERSION/.

    python -m recovery.demo.lab up /tmp/lab --accounting --rest --gpus 8 --nodes-per-switch 2
    SLURM_CONF=/tmp/lab/etc/slurm.conf python3 tests/slurm/record_rest.py tests/slurm/recorded 127.0.0.1:17002

Standard library only, as record.py, whose jobs it makes: it wants the same fresh cluster and leaves it broken. Every
version of the API that we know and the server has is recorded. A file holds the status and the type in its first line,
then the body: white space taken out, what tells of the machine and the token replaced.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from record import WORK, call, impersonal, make_history, wait_for  # type: ignore[import-not-found]  # beside it, run as a script

VERSIONS = tuple(f"v0.0.{number}" for number in range(38, 46))
LISTS = ("jobs", "nodes", "partitions", "reservations", "diag", "ping")
PAST = ("failed_requeued", "cancelled", "array", "het")
ENDED = "start_time=1577836800&show_duplicates=true&skip_steps=true"
Ask = Callable[..., bytes]


def asker(address: str) -> Ask:
    token = call("scontrol", "token", "lifespan=3600").decode().strip().removeprefix("SLURM_JWT=")

    def ask(method: str, path: str, body: object = None, *, key: str = token) -> bytes:
        connection = http.client.HTTPConnection(address, timeout=30)
        head = {"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": key, "Content-Type": "application/json"}
        connection.request(method, path, body=json.dumps(body) if body is not None else None, headers=head)
        response = connection.getresponse()
        kind = (response.getheader("Content-Type") or "").partition(";")[0]
        return f"{response.status} {kind}\n".encode() + response.read()

    return ask


def record(folder: Path, version: str, ask: Ask, jobs: dict[str, str]) -> None:
    slurm, db = f"/slurm/{version}", f"/slurmdb/{version}"
    # As the product words it (recovery/slurm/rest_requests.py, rest_versions.py).
    always = {"environment": None} if version == "v0.0.39" else {}
    later = f"{'uts' if version in ('v0.0.40', 'v0.0.41') else ''}{int(time.time()) + 60}"
    answers = {
        **{
            name: ask("GET", f"{slurm}/{name}")
            for name in ("jobs", "nodes", "partitions", "reservations", "diag", "ping")
        },
        "conf": ask("GET", f"{slurm}/conf"),
        "jobs_unchanged": ask("GET", f"{slurm}/jobs?update_time={later}"),
        "jobs_wrong_token": ask("GET", f"{slurm}/jobs", key="wrong"),
        "job_array": ask("GET", f"{slurm}/job/{jobs['array']}"),
        "job_het": ask("GET", f"{slurm}/job/{jobs['het']}"),
        "job_unknown": ask("GET", f"{slurm}/job/999999"),
        "no_such_call": ask("GET", f"{slurm}/nothing"),
        "update_unknown": ask("POST", f"{slurm}/job/999999", {**always, "time_limit": 5}),
        "update_ended": ask("POST", f"{slurm}/job/{jobs['failed']}", {**always, "time_limit": 5}),
        "update_unknown_field": ask("POST", f"{slurm}/job/{jobs['held']}", {**always, "no_such_field": 5}),
        "update_done": ask("POST", f"{slurm}/job/{jobs['held']}", {**always, "comment": "by slurmrestd"}),
        "cancel_unknown": ask("DELETE", f"{slurm}/job/999999"),
        "cancel_ended": ask("DELETE", f"{slurm}/job/{jobs['failed']}"),
        "requeue_pending": ask("GET", f"{slurm}/job/{jobs['held']}/requeue"),
        "drain_unknown": ask("POST", f"{slurm}/node/nowhere", {"state": ["DRAIN"], "reason": "x"}),
        "user_root": ask("GET", f"{db}/user/root"),
        "user_unknown": ask("GET", f"{db}/user/nobody"),
        **{
            f"attempts_{kind}": ask("GET", f"{db}/job/{jobs[kind]}")
            for kind in ("failed_requeued", "cancelled", "array", "het")
        },
        "attempts_unknown": ask("GET", f"{db}/job/999999"),
        "script": ask("GET", f"{db}/jobs?step={jobs['held']}&show_batch_script=true&skip_steps=true"),
    }
    if version >= "v0.0.42":
        answers["ended"] = ask("GET", f"{db}/jobs?{ENDED}&end_time={int(time.time())}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, answer in answers.items():
        (folder / f"{name}.txt").write_bytes(cleaned(answer))


def cleaned(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\n")
    return b"\n".join((head, impersonal(re.sub(rb"\n\s*", b"", body)), b""))


def main() -> None:
    release = ".".join(call("scontrol", "-V").decode().split()[1].split(".")[:2])
    folder, ask = Path(sys.argv[1]).absolute() / f"rest-{release}", asker(sys.argv[2])
    (WORK / "out").mkdir(parents=True, exist_ok=True)
    jobs = make_history()
    wait_for(jobs, {"failed_requeued": "FAILED"})  # once more: all versions are to tell of one moment
    maintenance = ("StartTime=now", "Duration=60", "Nodes=n1", "Users=root", "Flags=MAINT,IGNORE_JOBS")
    call("scontrol", "create", "reservation", "ReservationName=maint", *maintenance)
    for version in VERSIONS:
        if not ask("GET", f"/slurm/{version}/ping").startswith(b"404"):
            record(folder / version, version, ask, jobs)
            print(f"Slurm {release} {version} recorded in {folder / version}")
    (folder / "jobs.txt").write_text("".join(f"{kind} {job}\n" for kind, job in jobs.items()))


if __name__ == "__main__":
    WORK.mkdir(exist_ok=True)
    main()
