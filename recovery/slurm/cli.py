"""The back end that runs Slurm's own commands: the surface that every release has in full.

Reads: `squeue` as text (jobs), `sinfo --json` (nodes), `sacct` as text (past attempts), `scontrol show` (the rest).
Writes: `scontrol requeue`, `hold`, `update`, …, `scancel`, `sbatch`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from recovery.slurm import (
    cli_federation,
    cli_jobs,
    cli_json,
    cli_rights,
    cli_scontrol,
    cli_squeue,
    cli_submit,
    cli_writes,
    sacct,
    sacct_jobs,
)
from recovery.slurm.base import (
    YES,
    AttemptRecord,
    Can,
    Health,
    JobNotFound,
    JobRecord,
    JobsPicture,
    NodeRecord,
    Operation,
    PartitionRecord,
    ReservationRecord,
    Rights,
    SlurmClient,
    SlurmError,
    SlurmRefused,
    SlurmUnreachable,
    Submission,
)
from recovery.slurm.cli_commands import Commands, error_of
from recovery.slurm.cli_squeue import Listing, Row
from recovery.slurm.command import Answer
from recovery.slurm.federation import Place, is_of_one, placed, with_origins
from recovery.slurm.json_values import BadAnswer
from recovery.slurm.names import check_job_id
from recovery.slurm.states import check_not_drained
from recovery.slurm.submissions import check_submission

T = TypeVar("T")

MANY_HELD = 1000  # more jobs than this are not asked for one by one
MANY_ENDING = 32  # more jobs than this end at once only where something is wrong: their nodes are read as they stand


class CliClient(SlurmClient):
    """One cluster, reached by its commands. Holds nothing but its configuration: any number may exist.

    `slurm_conf` is the cluster's slurm.conf ("": Slurm's own default place), `bin_dir` the folder of its commands (""
    looks in the usual places), `prefix` what runs them elsewhere ("ssh -o BatchMode=yes login1"; "": they run here). It
    runs as whoever we are; that user needs operator rights in Slurm to change other users' jobs.
    """

    def __init__(self, *, slurm_conf: str = "", bin_dir: str = "", prefix: str = "", timeout_s: float = 10) -> None:
        self._commands = Commands(slurm_conf=slurm_conf, bin_dir=bin_dir, prefix=prefix, timeout_s=timeout_s)

    def can(self, operation: Operation) -> Can:
        """The commands have every call, in every release."""
        return YES

    # --- reads -------------------------------------------------------------------------------------------------------

    def health(self) -> Health:
        """The controller answers `scontrol show config` itself, so an answer is a sign of life too."""
        started = time.monotonic()
        answer = self._run("scontrol", "show", "config")
        latency_s = time.monotonic() - started
        found = _parsed(answer, lambda output: cli_scontrol.health(output, latency_s=latency_s))
        told = self.federation()
        return dataclasses.replace(found, federation=told.name, siblings=told.siblings, unsynced=told.unsynced)

    def federation(self) -> cli_federation.Told:
        """Its name is None where that gets no answer."""
        with suppress(SlurmError):
            return cli_federation.federation(self._run(*cli_federation.SHOW).output)
        return cli_federation.Told(None)

    def rights(self) -> Rights:
        user = self._commands.whoami()
        settings = _parsed(self._run("scontrol", "show", "config"), cli_scontrol.settings_of)
        return cli_rights.rights_of(user, settings, ask=lambda: self._run(*cli_rights.question(user)).output)

    def jobs(self) -> list[JobRecord]:
        return self.jobs_since("").jobs or []

    def jobs_since(self, mark: str) -> JobsPicture:
        """The mark is a digest of the answers: squeue itself can't be asked for changes."""
        listing = self._squeue()
        plain = listing.digest({}) if listing.is_plain else ""
        if plain and plain == mark:
            return JobsPicture(jobs=None, mark=mark)
        found = self._rows(listing)
        if not found:
            self._confirm_no_jobs()
        reasons = self._reasons(found)
        now = plain or listing.digest(reasons)
        return JobsPicture(jobs=None if now == mark else self._records(self._placed(found), reasons), mark=now)

    def job(self, job_id: str) -> JobRecord:
        """One job costs a look at one job; of an array, at all its tasks."""
        check_job_id(job_id)
        found = [row for row in self._rows(self._squeue(f"--jobs={job_id}")) if row.job_id == job_id]
        placed = self._placed(found, f"--jobs={job_id}")
        for record in self._records(placed, self._reasons(found)):
            return record
        raise JobNotFound("the controller knows no such job", tried=f"squeue --jobs={job_id}", permanent=True)

    def attempts(self, job_ids: Sequence[str], *, since: datetime) -> dict[str, list[AttemptRecord]]:
        for job_id in job_ids:
            check_job_id(job_id)
        if not job_ids:
            return {}
        answer = self._run("sacct", *sacct.arguments(job_ids, since=since))
        return _parsed(answer, lambda output: sacct.attempts_by_job(output, job_ids))

    def ended_between(self, start: datetime, end: datetime) -> list[JobRecord]:
        """sacct ends with an error where it does not know a column, so what it knows is asked for first."""
        columns = sacct_jobs.columns(self._run("sacct", "--helpformat").output)
        separator = cli_squeue.new_separator()
        answer = self._run("sacct", *sacct_jobs.arguments(start, end, list(columns.values()), separator))
        found = _parsed(answer, lambda output: sacct_jobs.ended(output, list(columns), separator, start=start, end=end))
        if not any(is_of_one(record.raw_id) for record in found):
            return found
        here, numbers = cli_federation.numbers(self._run(*cli_federation.SHOW).output)
        return with_origins(found, numbers, here=here)

    def nodes(self) -> list[NodeRecord]:
        # Releases after 22.05 answer in groups of alike nodes: --Node makes a group of each.
        answer = self._run("sinfo", "--json", "--all", "--local", "--Node")
        found = _parsed(answer, cli_json.parse_nodes)
        if not found:
            raise SlurmUnreachable("the answer names no node", tried=answer.tried)
        return found

    def partitions(self) -> list[PartitionRecord]:
        answer = self._run("scontrol", "--local", "--oneliner", "--all", "show", "partition")
        return _parsed(answer, cli_scontrol.partitions)

    def reservations(self) -> list[ReservationRecord]:
        answer = self._run("scontrol", "--local", "--oneliner", "--all", "show", "reservation")
        return _parsed(answer, cli_scontrol.reservations)

    def topology(self) -> dict[str, str]:
        """Without one scontrol prints nothing and ends well; so it does with the controller down, but complains."""
        answer = self._run("scontrol", "show", "topology")
        if not answer.output and "error:" in answer.errors and cli_scontrol.NO_TOPOLOGY not in answer.errors:
            raise error_of(answer)
        return _parsed(answer, cli_scontrol.topology)

    def batch_script(self, job_id: str) -> str:
        """scontrol ends well even where it has no script to write, and says so on its error stream."""
        check_job_id(job_id)
        answer = self._run("scontrol", "write", "batch_script", job_id, "-")
        if not answer.output.startswith("#!"):  # sbatch takes no other script
            raise error_of(answer)
        return answer.output

    # --- writes ------------------------------------------------------------------------------------------------------

    def requeue(self, job_id: str, *, hold: bool) -> None:
        """Slurm requeues a heterogeneous job as a whole, by its first component "4711+0"; others are refused.

        The id of an array, "4711", stands for all its tasks: the record of that id is one that waits, so a caller that
        requeues what runs or has ended never names it.
        """
        self._run(*cli_writes.requeue(job_id, hold=hold))

    def set_excluded_nodes(self, job_id: str, nodes: tuple[str, ...]) -> None:
        """Slurm allows it for pending jobs only: SlurmRefused otherwise."""
        self._run(*cli_writes.set_excluded_nodes(job_id, nodes))

    def release(self, job_id: str) -> None:
        self._run(*cli_writes.release(job_id))

    def hold(self, job_id: str) -> None:
        self._run(*cli_writes.hold(job_id))

    def cancel(self, job_id: str) -> None:
        """scancel ends well whatever it did: what it could not do stands on its error stream."""
        answer = self._run(*cli_writes.cancel(job_id))
        if "error:" in answer.errors:
            raise error_of(answer)

    def set_time_limit(self, job_id: str, seconds: float) -> None:
        self._run(*cli_writes.set_time_limit(job_id, seconds))

    def set_admin_comment(self, job_id: str, text: str) -> None:
        self._run(*cli_writes.set_admin_comment(job_id, text))

    def drain_node(self, name: str, reason: str) -> None:
        argv = cli_writes.drain_node(name, reason)
        check_not_drained(self.nodes(), name)
        self._run(*argv)

    def resume_node(self, name: str) -> None:
        self._run(*cli_writes.resume_node(name))

    def submit(self, submission: Submission) -> str:
        """A submission whose admin comment is refused afterwards stands: its job is returned without one."""
        tried = f"submit a script for {submission.user[:100]!r}"
        check_submission(submission, tried=tried)
        if submission.environment and self._commands.elsewhere:
            message = "variables can't be handed over to a submit host: set them in the script"
            raise SlurmRefused(message, tried=tried, permanent=True)
        argv = cli_submit.arguments(submission, tried=tried)
        user = cli_submit.become(submission, whoami=self._commands.whoami, tried=tried)
        try:
            answer = self._commands.run_bare(*argv, as_user=user, given=cli_submit.given(submission))
        except SlurmError as error:
            raise cli_submit.explained(error) from error
        job_id = _parsed(answer, cli_submit.job_id)
        if submission.admin_comment:
            with suppress(SlurmError):
                self.set_admin_comment(job_id, submission.admin_comment)
        return job_id

    def preview(self, operation: Operation, subject: str, *, nodes: tuple[str, ...] = (), value: str = "") -> str:
        return cli_writes.preview(operation, subject, nodes=nodes, value=value)

    # --- jobs, in steps ----------------------------------------------------------------------------------------------

    def _squeue(self, *options: str) -> Listing:
        separator = cli_squeue.new_separator()
        hidden = (cli_squeue.FORMAT_VARIABLE, cli_squeue.format_of(separator))
        answer = self._run("squeue", *cli_squeue.OPTIONS, *options, hidden=hidden)
        parts = cli_squeue.cut(answer.output, separator)
        if cli_squeue.NO_EXCLUDED_FIELD not in answer.errors or not answer.output:
            return Listing(answer.output, parts, None, answer.tried)
        beside = self._run("squeue", *cli_squeue.OPTIONS, *options, f"--format={cli_squeue.EXCLUDED_FORMAT}")
        return Listing(answer.output, parts, beside.output, answer.tried)

    def _rows(self, listing: Listing) -> list[Row]:
        try:
            return listing.rows()
        except BadAnswer as error:
            raise SlurmUnreachable(f"the answer can't be used: {error}", tried=listing.tried) from error

    def _placed(self, found: list[Row], *options: str) -> Sequence[tuple[Row, Place | None]]:
        """Each job with its place in a federation; without those that were revoked, before or between the questions."""
        found = cli_federation.with_ids(found)
        if not cli_federation.is_asked_for(found):
            return [(row, None) for row in found]
        answer = self._run("squeue", *cli_squeue.OPTIONS, *options, cli_federation.FORMAT)
        return _parsed(answer, lambda output: cli_federation.placed_rows(found, output))

    def _records(self, found: Sequence[tuple[Row, Place | None]], reasons: dict[str, str]) -> list[JobRecord]:
        ending = cli_squeue.ending([row for row, _ in found])[:MANY_ENDING]
        allocated = {row.raw_id: self._allocated(row) for row in ending}
        try:
            return [placed(cli_jobs.record(row, allocated=allocated, reasons=reasons), at) for row, at in found]
        except BadAnswer as error:
            raise SlurmUnreachable(f"the answer can't be used: {error}", tried="squeue") from error

    def _allocated(self, row: Row) -> tuple[str, ...]:
        """All nodes of a job that is ending; () where it has gone in between."""
        try:
            answer = self._run("scontrol", "--local", "--details", "show", "job", row.raw_id)
        except JobNotFound:
            return ()
        return cli_scontrol.allocated_nodes(answer.output, row)

    def _reasons(self, found: list[Row]) -> dict[str, str]:
        """Why the jobs wait that a held requeue holds, by raw id.

        22.05 answers with all jobs whatever is asked, so nobody is asked where no job is held so.
        """
        held = [row.raw_id for row in cli_squeue.held_by_requeue(found)]
        if not held:
            return {}
        these = [f"--jobs={','.join(held)}"] if len(held) <= MANY_HELD else []  # Linux takes 128 kB in one argument
        answer = self._run("squeue", "--json", "--all", "--local", "--states=all", *these)
        reasons = _parsed(answer, cli_json.reasons)
        return {raw_id: reasons[raw_id] for raw_id in held if raw_id in reasons}

    def _confirm_no_jobs(self) -> None:
        """No jobs at all is said by another command, too, or was not seen."""
        answer = self._run("scontrol", "--local", "--oneliner", "show", "job")
        if answer.output.strip() != cli_scontrol.NO_JOBS:
            raise SlurmUnreachable("squeue lists no job, scontrol does", tried=f"squeue, {answer.tried}")

    def _run(self, *argv: str, hidden: tuple[str, str] | None = None) -> Answer:
        return self._commands.run(*argv, hidden=hidden)


def _parsed(answer: Answer, parse: Callable[[str], T]) -> T:
    try:
        return parse(answer.output)
    except BadAnswer as error:
        raise SlurmUnreachable(f"the answer can't be used: {error}", tried=answer.tried) from error
