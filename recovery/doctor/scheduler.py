"""What the controller is set to, as far as it decides how well a job can be recovered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db.models import Q

from recovery.core.speech import duration, listed
from recovery.core.types import JobState
from recovery.doctor.results import Group, Result, State
from recovery.models import Cluster, Job
from recovery.slurm.base import Can, Health

MOST_SKEW_S = 5.0  # ages and "not before" are compared between the two clocks
LOOKS_BEFORE_FORGOTTEN = 3  # so many looks at least should fall into MinJobAge: one may fail, one may be late
# AccountingStoreFlags (slurm.conf): what is lost without each.
STORE_FLAGS = {
    "job_comment": "what a job asks of us is lost with the controller's memory of it",
    "job_script": "the script of an ended job can't be had once the controller forgot it",
}


def examine_settings(cluster: Cluster, health: Health, *, attempts: Can, at: datetime) -> Iterator[Result]:
    """`at` is our clock right after the controller's answer; `attempts` whether the back end can ask accounting."""
    yield clock_skew(health, at=at)
    yield accounting(health, attempts, at=at)
    if health.accounting:
        yield store_flags(health, at=at)
    yield requeue_delay(health, at=at)
    yield min_job_age(cluster, health, at=at)
    if health.federation:
        yield federation(cluster, health, at=at)
    elif health.federation is None and _has_jobs_of_one(cluster):
        yield federation_not_told(at=at)


def _result(what: str, detail: str, state: State, *, at: datetime, remedy: str = "") -> Result:
    return Result(group=Group.SETTINGS, what=what, detail=detail, state=state, remedy=remedy, at=at)


def clock_skew(health: Health, *, at: datetime) -> Result:
    """The controller tells its time to the second, and the answer was under way for a part of the latency."""
    if health.controller_time is None:
        return _result("clock", "this back end doesn't tell the controller's time", State.NOT_TRIED, at=at)
    skew_s = (health.controller_time - at).total_seconds()
    if abs(skew_s) > MOST_SKEW_S + health.latency_s:
        side = "ahead of" if skew_s > 0 else "behind"
        detail = f"the controller's clock is {duration(abs(skew_s))} {side} this machine's"
        remedy = "Let both follow the same time server (chrony, timesyncd): times of jobs and logs are compared."
        return _result("clock", detail, State.BROKEN, remedy=remedy, at=at)
    return _result("clock", "the controller's clock agrees with this machine's", State.GOOD, at=at)


def accounting(health: Health, attempts: Can, *, at: datetime) -> Result:
    if health.accounting:
        detail = "Slurm is set to keep past attempts; “past attempts” tells whether they can be had"
        return _result("accounting", detail, State.GOOD, at=at)
    if not attempts:
        detail = f"whether there is any or not, it can't be asked: {attempts.reason}"
        return _result("accounting", detail, State.ATTENTION, remedy=attempts.remedy, at=at)
    detail = "there is none: how a job ended stays unknown once the controller forgot it, and so do its past attempts"
    remedy = "Run slurmdbd and set AccountingStorageType=accounting_storage/slurmdbd in slurm.conf."
    return _result("accounting", detail, State.ATTENTION, remedy=remedy, at=at)


def store_flags(health: Health, *, at: datetime) -> Result:
    what = "AccountingStoreFlags"
    missing = [flag for flag in STORE_FLAGS if flag not in health.store_flags]
    if not missing:
        return _result(what, f"stores {', '.join(STORE_FLAGS)}", State.GOOD, at=at)
    cost = "; ".join(f"{flag} is not stored: {STORE_FLAGS[flag]}" for flag in missing)
    wanted = ",".join(dict.fromkeys([*health.store_flags, *STORE_FLAGS]))
    remedy = f"Set AccountingStoreFlags={wanted} in slurm.conf, then `scontrol reconfigure`."
    return _result(what, cost, State.ATTENTION, remedy=remedy, at=at)


def requeue_delay(health: Health, *, at: datetime) -> Result:
    """Slurm's cred_expire plus 1: the job's old credential must have run out. The least that it takes is 5."""
    detail = f"a requeued job waits {health.requeue_delay_s:.0f} s at least"
    remedy = ""
    if health.min_job_age_s is None:  # neither of the two is known without the controller's configuration
        detail = f"{detail}, if Slurm's default holds: this back end doesn't tell"
        return _result("requeue delay", detail, State.NOT_TRIED, at=at)
    if health.requeue_delay_s > 31:
        remedy = "To shorten it: AuthInfo=cred_expire=30 in slurm.conf (5 at least), then restart the Slurm daemons."
    return _result("requeue delay", detail, State.GOOD, remedy=remedy, at=at)


def federation(cluster: Cluster, health: Health, *, at: datetime) -> Result:
    """Its other clusters are looked for among ours by what their last pictures said."""
    if not health.siblings:
        return _result("federation", f"this cluster is in {health.federation}, alone", State.GOOD, at=at)
    detail = (
        f"this cluster is in {health.federation}, with {listed(health.siblings)}: a job that was put back may start "
        "there, where this cluster's case can't follow it; of a job that was submitted there holds and exclusions are "
        "not touched from here"
    )
    remedies = [_out_of_step(health.unsynced), _not_ours(cluster, health)]
    remedy = " ".join(filter(None, remedies))
    return _result("federation", detail, State.ATTENTION if remedy else State.GOOD, remedy=remedy, at=at)


def _out_of_step(unsynced: Sequence[str]) -> str:
    if not unsynced:
        return ""
    return (
        f"Look after {listed(unsynced)}: Slurm is out of step with it here (`scontrol show federation`). Until it is "
        "back, jobs that may start there wait on this cluster, too (FedJobLock), and nothing is asked of its jobs."
    )


def _not_ours(cluster: Cluster, health: Health) -> str:
    """One that was not looked at yet may be of them. Which of ours is which of Slurm's is not told by its name."""
    others = Cluster.objects.filter(enabled=True).exclude(pk=cluster.pk)
    if others.filter(Q(federation=health.federation) | Q(seen_at=None)).count() >= len(health.siblings):
        return ""
    one = len(health.siblings) == 1
    what = "a cluster of this desk too" if one else "clusters of this desk too, all of them"
    own = "" if one else ", each"
    return f"Let {listed(health.siblings)} be {what} (`manage.py set_cluster`){own} by a slurm.conf of its own."


def _has_jobs_of_one(cluster: Cluster) -> bool:
    of_one = ~Q(origin="") | Q(state=JobState.REVOKED)
    return Job.objects.filter(of_one, cluster=cluster, listed=True).exists()


def federation_not_told(*, at: datetime) -> Result:
    detail = (
        "there are jobs of a federation, and which one it is was not told: that a run goes on on another cluster of it "
        "is not seen from here"
    )
    remedy = "Let Slurm's commands act beside it (option acts_by), and see that `scontrol show federation` answers."
    return _result("federation", detail, State.ATTENTION, remedy=remedy, at=at)


def min_job_age(cluster: Cluster, health: Health, *, at: datetime) -> Result:
    what = "MinJobAge"
    if health.min_job_age_s is None:
        return _result(what, "this back end doesn't tell how long ended jobs stay known", State.NOT_TRIED, at=at)
    detail = (
        f"ended jobs stay known for {duration(health.min_job_age_s)}, "
        f"and we look every {duration(cluster.poll_interval_s)}"
    )
    least = LOOKS_BEFORE_FORGOTTEN * cluster.poll_interval_s
    if health.min_job_age_s >= least:
        return _result(what, detail, State.GOOD, at=at)
    remedy = f"Set MinJobAge=300 in slurm.conf, or look more often: `manage.py set_cluster {cluster.name} "
    remedy += f"--poll-interval {max(1, int(health.min_job_age_s // LOOKS_BEFORE_FORGOTTEN))}`."
    return _result(what, f"{detail}: ends of jobs will be missed", State.ATTENTION, remedy=remedy, at=at)
