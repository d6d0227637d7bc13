"""Record what a real Slurm answers, for the parser tests: tests/slurm/recorded/RELEASE/.

    python -m recovery.demo.lab up /tmp/lab --accounting --gpus 8 --nodes-per-switch 2
    SLURM_CONF=/tmp/lab/etc/slurm.conf python3 tests/slurm/record.py tests/slurm/recorded

Standard library only, so that it also runs where another release of Slurm lives (a container, a chroot). It wants a
fresh cluster of four idle nodes n1 … n4, on two switches, with accounting and eight GPUs each, and leaves it broken.
White space is taken out of the answers and what tells of the machine is replaced; nothing else is touched: one job's
name is no UTF-8.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

WORK = Path("/tmp/recorded-jobs")
HOSTILE_NAME = 'evil\nJobId=1 \x1f|"name'
COMMENT = '{"recovery": {"run": "llama", "checkpoint_dir": "/ckpt/llama"}}'
ATTEMPT_FORMAT = "--format=DBIndex,JobID,State,Submit,Start,End,ExitCode,NodeList"
SEPARATOR = "~separator~"
# The fields that the product asks for (recovery/slurm/cli_squeue.py); a test holds the two lists together.
FIELDS = """
    JobID ArrayJobID ArrayTaskID HetJobID HetJobOffset State Reason SubmitTime RestartCnt PriorityLong Requeue
    EligibleTime StartTime EndTime exit_code NodeList NumNodes NumTasks ReqNodes tres-alloc tres-per-job tres-per-node
    tres-per-task TimeLimit UserName UserID Account Partition QOS BatchFlag BatchHost Reservation Feature Name Comment
    admin_comment WorkDir STDOUT STDERR ExcNodes SLUID
""".split()  # noqa: SIM905 - a table
# The columns that it asks sacct for (recovery/slurm/sacct_jobs.py), each release for those that it has.
COLUMNS = """
    JobIDRaw JobID State Submit Eligible Start End ExitCode NodeList NNodes AllocTRES ReqTRES TimelimitRaw User UID
    Account Partition QOS Reservation Constraints JobName Comment WorkDir StdOut StdErr
""".split()  # noqa: SIM905 - a table
OWN_SLURM, HOSTS_PATH = os.environ.get("RECOVERY_LAB_SLURM", ""), "/usr/bin:/bin:/usr/sbin"
ENV = {
    "PATH": f"{OWN_SLURM}/bin:{HOSTS_PATH}" if OWN_SLURM else HOSTS_PATH,
    "LC_ALL": "C",
    "TZ": "UTC",
    "SLURM_TIME_FORMAT": "standard",
    "SLURM_CONF": os.environ.get("SLURM_CONF", ""),
}


def call(*argv: str | bytes, conf: str = "") -> bytes:
    env = ENV | ({"SLURM_CONF": conf} if conf else {})
    done = subprocess.run(argv, env=env, cwd=WORK, capture_output=True, timeout=30, check=False)
    return done.stdout


def submit(*options: str | bytes, wrap: str) -> str:
    return call("sbatch", "--parsable", *options, f"--wrap={wrap}").decode().strip()


def make_history() -> dict[str, str]:
    """Submit one job of each kind and let things happen to them; their ids by what they are."""
    jobs = {
        "running": submit("-N2", f"-J{HOSTILE_NAME}", f"--comment={COMMENT}", "-xn4", "-o%x-%j.log", wrap="sleep 300"),
        "failed": submit(
            "-t30", "-eerr-%j.log", wrap="srun true; srun sh -c 'exit 3'; srun sh -c 'kill -9 $$'; exit 4"
        ),
        "array": submit("--array=1-3%1", "-oout/%A_%a.log", wrap="sleep 300"),
        "alone": submit("--array=7", "-H", wrap="true"),
        "held": submit("-H", wrap="true"),
        "het": submit("-N1", ":", "-N1", wrap="sleep 300"),
        "signalled": submit("--no-requeue", wrap="kill -SEGV $$"),
        "bytes": submit(b"-J\xff\xfe", "-wn1", wrap="sleep 300"),
        "failed_requeued": submit(wrap="exit 7"),
        "cancelled": submit("-wn2", wrap="sleep 300"),
        "held_requeue": submit(wrap="sleep 300"),
        "held_twice": submit(wrap="sleep 300"),
        "gpus": submit("--gpus-per-node=4", "-wn1", wrap="sleep 300"),
    }
    ended = ("failed", "signalled", "failed_requeued")
    run_on = ("running", "bytes", "cancelled", "held_requeue", "held_twice", "gpus")
    wait_for(jobs, dict.fromkeys(ended, "FAILED") | dict.fromkeys(run_on, "RUNNING"))
    call("scontrol", "requeue", jobs["failed_requeued"])
    call("scontrol", "requeuehold", jobs["held_requeue"], jobs["held_twice"])
    call("scancel", jobs["cancelled"])
    wait_for(jobs, {"cancelled": "CANCELLED", "held_requeue": "PENDING", "held_twice": "PENDING"})
    call("scontrol", "update", f"JobId={jobs['held_requeue']}", "ExcNodeList=n1,n2")
    call("scontrol", "update", "NodeName=n4", "State=DRAIN", 'Reason=bad "gpu"\nn1 is fine')
    call("scontrol", "update", "NodeName=n3", "State=DOWN", "Reason=power supply")
    call("scontrol", "update", f"JobId={jobs['running']}", "AdminComment=by hand")
    call("scontrol", "hold", jobs["held_twice"])
    time.sleep(2)
    return jobs


def wait_for(jobs: dict[str, str], wanted: dict[str, str]) -> None:
    """Until these jobs are in these states; a cluster that is too slow for that is not worth recording."""
    for _ in range(60):
        lines = call("squeue", "--noheader", "--states=all", "--format=%A %T").decode().splitlines()
        states = dict(line.split() for line in lines)
        waiting = {
            kind: states.get(jobs[kind], "?") for kind, state in wanted.items() if states.get(jobs[kind]) != state
        }
        if not waiting:
            time.sleep(2)  # accounting is a moment behind
            return
        time.sleep(0.5)
    sys.exit(f"Wanted {wanted}, and still is {waiting}: record on a quieter machine.")


def squeue(*options: str) -> tuple[bytes, bytes]:
    """The answer and the complaints, with the product's own question and a separator that is always the same."""
    fields = ",".join(f"{name}:0{SEPARATOR}" for name in FIELDS)
    argv = ["squeue", "--noheader", "--all", "--local", "--noconvert", "--states=all", *options]
    done = subprocess.run(argv, env=ENV | {"SQUEUE_FORMAT2": fields}, capture_output=True, timeout=30, check=False)
    return done.stdout, done.stderr


def record_no_jobs(folder: Path) -> None:
    """What a cluster without jobs says; the first thing that is recorded."""
    write(folder / "squeue_none.txt", squeue()[0])
    write(folder / "scontrol_no_jobs.txt", call("scontrol", "--oneliner", "show", "job"))
    write(folder / "reservations_none.txt", call("scontrol", "--oneliner", "--all", "show", "reservation"))


def record_text(folder: Path, jobs: dict[str, str]) -> None:
    write(folder / "squeue_excluded.txt", squeue("--format=%A|%x")[0])
    write(folder / "partitions.txt", call("scontrol", "--oneliner", "--all", "show", "partition"))
    write(folder / "topology.txt", call("scontrol", "show", "topology"))
    maintenance = ("ReservationName=swap_psu", "StartTime=now", "Duration=60", "Nodes=n4", "Users=root", "Flags=MAINT")
    call("scontrol", "create", "reservation", *maintenance)
    write(folder / "reservations.txt", call("scontrol", "--oneliner", "--all", "show", "reservation"))
    write(folder / "details_running.txt", call("scontrol", "--details", "show", "job", jobs["running"]))


def nobody_listens() -> str:
    """A configuration whose controller does not answer."""
    conf = WORK / "nobody-listens.conf"
    conf.write_text(re.sub(r"(?m)^SlurmctldPort=.*", "SlurmctldPort=9", Path(ENV["SLURM_CONF"]).read_text()))
    return str(conf)


def record_ended(folder: Path) -> None:
    """Every execution that has ended, and what columns there are."""
    offered = call("sacct", "--helpformat")
    write(folder / "sacct_columns.txt", offered)
    wanted = ",".join(column for column in COLUMNS if column in offered.decode().split())
    options = ["--allusers", "--duplicates", "--allocations", "--noheader", "--parsable", f"--delimiter={SEPARATOR}"]
    ends = "--state=BF,CA,CD,DL,F,NF,OOM,PR,RQ,RV,TO"
    span = ("--starttime=2020-01-01T00:00:00", "--endtime=now")
    write(folder / "sacct_ended.txt", call("sacct", *options, ends, *span, f"--format={wanted}"))


def record(folder: Path, jobs: dict[str, str]) -> None:
    answer, errors = squeue()  # this and the next one must tell of the same moment
    write(folder / "squeue.json", call("squeue", "--json", "--all", "--states=all"))
    write(folder / "squeue.txt", answer)
    write(folder / "squeue_errors.txt", errors)
    record_text(folder, jobs)
    write(folder / "sinfo.json", call("sinfo", "--json", "--all", "--Node"))
    options = ["--duplicates", "--noheader", "--parsable2", "--delimiter=\x1f", ATTEMPT_FORMAT]
    for kind in ("failed", "failed_requeued", "cancelled", "held_requeue", "array", "het"):
        rows = call("sacct", *options, "--starttime=2020-01-01T00:00:00", f"--jobs={jobs[kind]}")
        write(folder / f"sacct_{kind}.txt", rows)
    record_ended(folder)
    write(folder / "config.txt", call("scontrol", "show", "config"))
    write(folder / "squeue_controller_down.json", call("squeue", "--json", conf=nobody_listens()))
    write(folder / "jobs.txt", "".join(f"{kind} {job}\n" for kind, job in jobs.items()).encode())


def write(path: Path, answer: bytes) -> None:
    """Without indentation (a line end inside a JSON string is escaped) and without what tells of the machine."""
    if path.suffix == ".json":
        answer = re.sub(rb"\n\s*", b"", answer) + b"\n"
    path.write_bytes(impersonal(answer))


def impersonal(answer: bytes) -> bytes:
    """Without the places and the names of this machine."""
    answer = re.sub(rb'"operating_system": ?"[^"]*"', b'"operating_system": "Linux"', answer)
    places = {str(Path(ENV["SLURM_CONF"]).parent.parent): "/lab", str(WORK): "/home/ada", OWN_SLURM: "/opt/slurm"}
    for own, ours in {**places, socket.gethostname(): "host"}.items():
        for slash in ("/", "\\/") if own else ():
            answer = answer.replace(own.replace("/", slash).encode(), ours.replace("/", slash).encode())
    return answer


def main() -> None:
    release = call("scontrol", "-V").decode().split()[1]
    folder = Path(sys.argv[1]).absolute() / ".".join(release.split(".")[:2])
    folder.mkdir(parents=True, exist_ok=True)
    (WORK / "out").mkdir(parents=True, exist_ok=True)
    record_no_jobs(folder)
    record(folder, make_history())
    print(f"Slurm {release} recorded in {folder}")


if __name__ == "__main__":
    WORK.mkdir(exist_ok=True)
    main()
