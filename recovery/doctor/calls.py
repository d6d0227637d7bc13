"""Which calls work as this user: tried where a try changes nothing and tells the truth, else said by our rights.

What a harmless try tells was found on Slurm 22.05.8 and 26.05.5 (docs/privileges.md, tests/slurm/test_privileges.py):
- A write on a job id that can't exist is answered "Invalid job id" to everybody, before any right is looked at: it
  tells nothing, so writes on jobs are never tried.
- A change of a node that doesn't exist is "Invalid user id" to those who may not, and "Invalid node name" to those who
  may: it tells the truth and changes nothing.
- Another user's batch script can be read by operators, and by nobody below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from recovery.core.speech import duration
from recovery.doctor.remedies import GUIDE, SLURMDBD, become
from recovery.doctor.results import Group, Result, State
from recovery.models import Cluster, Job
from recovery.slurm.base import (
    JobNotFound,
    Operation,
    Rights,
    RightsLevel,
    SlurmClient,
    SlurmError,
    SlurmRefused,
)

NO_NODE = "recovery-desk-asks-whether-it-may"
DENIED = ("user id", "permission denied")  # Slurm's words (slurm_errno.c) for: not you
NO_SUCH_NODE = ("node name", "no such node", "unknown node")

WORDS = {
    Operation.JOBS: "list jobs",
    Operation.JOB: "look at one job",
    Operation.ATTEMPTS: "past attempts",
    Operation.ENDED_BETWEEN: "jobs that Slurm has forgotten",
    Operation.NODES: "list nodes",
    Operation.PARTITIONS: "list partitions",
    Operation.RESERVATIONS: "list reservations",
    Operation.TOPOLOGY: "tell which switch a node hangs on",
    Operation.BATCH_SCRIPT: "read a job's script",
    Operation.REQUEUE: "requeue",
    Operation.REQUEUE_HOLD: "requeue and hold",
    Operation.SET_EXCLUDED_NODES: "exclude nodes",
    Operation.RELEASE: "release a hold",
    Operation.HOLD: "hold",
    Operation.CANCEL: "cancel",
    Operation.SET_TIME_LIMIT: "set a time limit",
    Operation.SET_ADMIN_COMMENT: "write the admin comment",
    Operation.DRAIN_NODE: "drain a node",
    Operation.RESUME_NODE: "resume a node",
    Operation.SUBMIT: "submit",
}
ABOVE = "What is said above of accounting mends this, too."
LAST_MINUTES = timedelta(minutes=10)
CONTROLLER_LOG = "Look at the controller's log."
# Who else gives no answer than the controller.
AT_FAULT = {Operation.ATTEMPTS: SLURMDBD, Operation.ENDED_BETWEEN: SLURMDBD}
# What Slurm lets administrators do alone (tests/slurm/test_privileges.py); other changes are open to operators.
OF_ADMINISTRATORS = frozenset({Operation.SET_ADMIN_COMMENT, Operation.DRAIN_NODE, Operation.RESUME_NODE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    detail: str
    state: State
    remedy: str = ""


Try = Callable[[], Outcome]


def examine_calls(cluster: Cluster, client: SlurmClient, *, clock: Callable[[], datetime]) -> Iterator[Result]:
    """One result for whom we are, and one per operation."""
    begun = clock()
    rights, known = _rights(client, is_real=cluster.backend != "simulator")
    yield _result("who we are", known, at=clock())
    tries = _tries(cluster, client, rights, now=begun)
    for operation in Operation:
        can = client.can(operation)
        if not can:
            outcome = Outcome(detail=f"not here: {can.reason}", state=State.ATTENTION, remedy=can.remedy)
        elif operation in tries and clock() - begun < timedelta(seconds=settings.LEASE_S / 2):
            outcome = _tried(tries[operation], at_fault=AT_FAULT.get(operation, CONTROLLER_LOG))
        elif operation in tries and not operation.is_write:
            outcome = Outcome(detail="not tried: the answers before it took too long", state=State.NOT_TRIED)
        else:
            outcome = by_rights(operation, rights)
        yield _result(WORDS[operation], outcome, at=clock())


def _result(what: str, outcome: Outcome, *, at: datetime) -> Result:
    return Result(
        group=Group.CALLS, what=what, detail=outcome.detail, state=outcome.state, remedy=outcome.remedy, at=at
    )


def _rights(client: SlurmClient, *, is_real: bool) -> tuple[Rights, Outcome]:
    try:
        rights = client.rights()
    except SlurmError as error:
        detail = f"can't be told: {error}"
        unknown = Rights(user="", level=RightsLevel.UNKNOWN, how=detail)
        return unknown, Outcome(detail=detail, state=State.NOT_TRIED, remedy=f"What each call needs: {GUIDE}.")
    is_root = rights.user == "root" and is_real
    how = "root may do everything" if is_root else rights.how
    who = f"user {rights.user or 'unknown'}: {LEVELS[rights.level]} ({how})"
    if rights.level is RightsLevel.OWN:
        return rights, Outcome(detail=who, state=State.ATTENTION, remedy=become("operator", rights))
    if rights.level is RightsLevel.UNKNOWN:
        remedy = f"What each call needs: {GUIDE}."
        if rights.how.startswith("accounting"):  # it was asked, and gave no word
            remedy = f"{SLURMDBD} {remedy}"
        return rights, Outcome(detail=who, state=State.NOT_TRIED, remedy=remedy)
    too_much = f"{_ROOT} {GUIDE}." if is_root else ""
    return rights, Outcome(detail=who, state=State.GOOD, remedy=too_much)


_ROOT = (
    "More than it needs: an operator is enough to requeue jobs; draining and resuming nodes and admin comments take an "
    "administrator, submitting for others root:"
)
LEVELS = {
    RightsLevel.FULL: "administrator",
    RightsLevel.OPERATOR: "operator",
    RightsLevel.OWN: "no more than its own jobs",
    RightsLevel.UNKNOWN: "rights unknown",
}


def by_rights(operation: Operation, rights: Rights) -> Outcome:
    """What our level in Slurm allows, where a try would change something or tell nothing."""
    if not operation.is_write:
        detail = "not tried: when this was looked at, no job was stored that it could be tried on"
        return Outcome(detail=detail, state=State.NOT_TRIED)
    if rights.level is RightsLevel.UNKNOWN:
        return Outcome(detail="not tried; our rights are not known", state=State.NOT_TRIED)
    if operation is Operation.SUBMIT:
        whose = "for everybody" if rights.user == "root" else f"for {rights.user} alone: only root submits for others"
        return Outcome(detail=f"not tried; by rights {whose}", state=State.NOT_TRIED)
    needs_administrator = operation in OF_ADMINISTRATORS
    if rights.level is RightsLevel.FULL or (rights.level is RightsLevel.OPERATOR and not needs_administrator):
        return Outcome(detail="not tried; by rights it works", state=State.NOT_TRIED)
    if needs_administrator:
        detail = "not tried; by rights it is refused: administrators alone may (no recovery needs it)"
        level = "administrator"
    else:
        detail = f"not tried; by rights only for jobs of {rights.user}, and of accounts that it coordinates"
        level = "operator"
    return Outcome(detail=detail, state=State.ATTENTION, remedy=become(level, rights))


def _tried(look: Try, *, at_fault: str = CONTROLLER_LOG) -> Outcome:
    try:
        return look()
    except SlurmRefused as error:
        return Outcome(detail=f"refused: {error}", state=State.ATTENTION, remedy=f"What it needs: {GUIDE}.")
    except SlurmError as error:
        return Outcome(detail=f"no answer: {error}", state=State.BROKEN, remedy=at_fault)


def _tries(cluster: Cluster, client: SlurmClient, rights: Rights, *, now: datetime) -> dict[Operation, Try]:
    """What can be tried here: reads, and the change of a node that doesn't exist."""
    if cluster.is_stale(now):
        looks: dict[Operation, Try] = {
            Operation.JOBS: lambda: _unless_hidden(cluster, rights, _count(len(client.jobs()), "job")),
            Operation.NODES: lambda: _count(len(client.nodes()), "node"),
        }
    else:
        looks = dict.fromkeys((Operation.JOBS, Operation.NODES), lambda: _polled(cluster, now))
        looks[Operation.JOBS] = lambda: _unless_hidden(cluster, rights, _polled(cluster, now))
    looks[Operation.PARTITIONS] = lambda: _count(len(client.partitions()), "partition")
    looks[Operation.RESERVATIONS] = lambda: _count(len(client.reservations()), "reservation")
    looks[Operation.TOPOLOGY] = lambda: _count(len(set(client.topology().values())), "switch", "switches")
    looks[Operation.ENDED_BETWEEN] = lambda: _try_the_forgotten(client, rights, now=now)
    looks[Operation.DRAIN_NODE] = looks[Operation.RESUME_NODE] = _once(lambda: _try_a_node(client, rights))
    known = Job.objects.filter(cluster=cluster, vanished_at=None).order_by("-first_submitted_at")
    of_others = known.exclude(user=rights.user).first()
    newest = of_others or known.first()
    if newest is not None:
        looks[Operation.JOB] = lambda: _try_a_job(client, newest)
        looks[Operation.ATTEMPTS] = lambda: _try_attempts(client, newest)
        looks[Operation.BATCH_SCRIPT] = lambda: _try_a_script(client, newest, rights)
    return looks


def _once(look: Try) -> Try:
    """Two operations that one try answers are not tried twice."""
    found: list[Outcome] = []

    def answer() -> Outcome:
        if not found:
            found.append(_tried(look))
        return found[0]

    return answer


def _count(number: int, noun: str, nouns: str = "") -> Outcome:
    return Outcome(detail=f"tried: {number} {noun if number == 1 else nouns or f'{noun}s'}", state=State.GOOD)


def _unless_hidden(cluster: Cluster, rights: Rights, outcome: Outcome) -> Outcome:
    """slurm.conf's PrivateData gives those without a level an empty list, and no error."""
    others = Job.objects.filter(cluster=cluster).exclude(user=rights.user)
    if rights.level is not RightsLevel.OWN or others.exists():
        return outcome
    detail = f"{outcome.detail}, but no job of anybody else was ever seen: PrivateData in slurm.conf may hide them"
    return Outcome(detail=detail, state=State.ATTENTION, remedy=become("operator", rights))


def _polled(cluster: Cluster, now: datetime) -> Outcome:
    age = duration((now - cluster.seen_at).total_seconds()) if cluster.seen_at else ""
    return Outcome(detail=f"works: the picture of {age} ago is made of it", state=State.GOOD)


def _try_a_job(client: SlurmClient, job: Job) -> Outcome:
    try:
        client.job(job.job_id)
    except JobNotFound:
        return Outcome(detail=f"tried: job {job.job_id} is known no longer", state=State.GOOD)
    return Outcome(detail=f"tried: job {job.job_id}", state=State.GOOD)


def _try_attempts(client: SlurmClient, job: Job) -> Outcome:
    try:
        found = client.attempts([job.job_id], since=job.first_submitted_at - timedelta(minutes=1))
    except SlurmRefused as error:
        return Outcome(detail=f"refused: {error.message}", state=State.ATTENTION, remedy=ABOVE)
    count = len(found.get(job.job_id, ()))
    return Outcome(detail=f"tried: {count} of job {job.job_id}", state=State.GOOD)


def _try_the_forgotten(client: SlurmClient, rights: Rights, *, now: datetime) -> Outcome:
    """What is asked after an outage, of the last minutes alone. slurmdbd's PrivateData hides others' jobs as well."""
    try:
        found = client.ended_between(now - LAST_MINUTES, now)
    except SlurmRefused as error:
        return Outcome(detail=f"refused: {error.message}", state=State.ATTENTION, remedy=ABOVE)
    jobs = {record.job_id for record in found}
    told = f"{_count(len(jobs), 'job').detail} ended in the last {duration(LAST_MINUTES.total_seconds())}"
    if rights.level is RightsLevel.OWN and not {record.user for record in found} - {rights.user}:
        detail = f"{told}, none of anybody else: PrivateData in slurmdbd.conf may hide them"
        return Outcome(detail=detail, state=State.ATTENTION, remedy=become("operator", rights))
    return Outcome(detail=told, state=State.GOOD)


def _try_a_script(client: SlurmClient, job: Job, rights: Rights) -> Outcome:
    whose = "our own" if job.user == rights.user else f"of {job.user}"
    try:
        client.batch_script(job.job_id)
    except JobNotFound:
        return Outcome(detail=f"not tried: job {job.job_id} is known no longer", state=State.NOT_TRIED)
    except SlurmRefused as error:
        if not _says(error, DENIED):
            detail = f"tried: that of job {job.job_id} is not to be had ({error.message})"
            return Outcome(detail=detail, state=State.NOT_TRIED)
        remedy = become("operator", rights)
        return Outcome(detail=f"refused for job {job.job_id}, {whose}", state=State.ATTENTION, remedy=remedy)
    return Outcome(detail=f"tried: job {job.job_id}, {whose}", state=State.GOOD)


def _try_a_node(client: SlurmClient, rights: Rights) -> Outcome:
    try:
        client.resume_node(NO_NODE)
    except SlurmRefused as error:
        if _says(error, DENIED):
            detail = "tried on a node that doesn't exist: refused, administrators alone may (no recovery needs it)"
            return Outcome(detail=detail, state=State.ATTENTION, remedy=become("administrator", rights))
        if _says(error, NO_SUCH_NODE):
            return Outcome(detail="tried on a node that doesn't exist: we may", state=State.GOOD)
        return by_rights(Operation.RESUME_NODE, rights)
    return by_rights(Operation.RESUME_NODE, rights)


def _says(error: SlurmError, words: tuple[str, ...]) -> bool:
    return any(word in error.message.lower() for word in words)
