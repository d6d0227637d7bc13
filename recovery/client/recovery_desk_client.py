"""Tell Recovery Desk what a training job does: one file, no dependencies, Python 3.8 and later. Copy it beside yours.

    from recovery_desk_client import RecoveryDesk

    desk = RecoveryDesk()                 # address and token from the environment; without them it does nothing
    desk.progress(step=120, loss=2.31)    # in the training loop: puts a row into a queue, never waits, never raises

A background thread sends; when the desk is slow or away it tries again, and the queue drops its oldest rows when full.

Environment: RECOVERY_DESK_URL, RECOVERY_DESK_TOKEN or RECOVERY_DESK_TOKEN_FILE, RECOVERY_DESK_CA_FILE (of the desk's
certificate), RECOVERY_DESK_RANKS (zero or all), RECOVERY_DESK_JOB and RECOVERY_DESK_RESTART (else what Slurm sets).
"""

from __future__ import annotations

import atexit
import http.client
import json
import logging
import math
import os
import random
import ssl
import sys
import threading
import time
import traceback
import uuid
import weakref
from collections import deque
from typing import Any
from urllib.parse import urlsplit

VERSION = 1
QUEUE_ROWS = 10_000  # kept while the desk is away; then the oldest go
BATCH_ROWS = 500
FLUSH_S = 5.0  # so often rows are sent
HEARTBEAT_S = 30.0  # so often the desk hears from us when there is nothing to tell
TIMEOUT_S = 10.0  # for each answer
CLOSING_RETRY_S = 0.5
EXIT_S = 5.0  # how long the end of the program waits for the last rows
_jitter = random.Random()  # noqa: S311 - of its own: drawing from the program's would change what a seeded training does
FIRST_DELAY_S, LONGEST_DELAY_S, LONGEST_RETRY_AFTER_S = 1.0, 60.0, 600.0
# Of torchrun and of mpirun: what those start inherits the batch script's SLURM_PROCID, which is 0 for all.
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
EXACT = 2**53  # whole numbers below it are exact as JSON's
MOST_FAILURES, FAILURE_CHARS = 20, 8_000  # texts that are kept, and how much of each (its end)
ANSWER_BYTES = 64 * 1024  # of an answer that are read
MOST_TOLD, TOLD_CHARS = 20, 200  # warnings in the job's log, and how much of the desk's words is in each

_log = logging.getLogger("recovery_desk")
_all: weakref.WeakSet[RecoveryDesk] = weakref.WeakSet()


def _job_of(env: Any) -> str:
    """The job as the desk calls it: an array task is ARRAY_TASK."""
    array, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    own = f"{array}_{task}" if array and task else env.get("SLURM_JOB_ID", "")
    return str(env.get("RECOVERY_DESK_JOB") or own)


def _whole(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


class RecoveryDesk:
    """One sender for one process. Every method returns at once and raises nothing.

    ranks: "zero" (only rank 0 sends) or "all" (each rank sends, and its rows carry its rank).
    `sent`, `dropped` and `refused` count rows.
    """

    def __init__(
        self, url: str = "", token: str = "", *, job: str = "", restart: int | None = None, rank: int | None = None,
        ranks: str = "", queue_rows: int = QUEUE_ROWS, flush_s: float = FLUSH_S, timeout_s: float = TIMEOUT_S,
    ) -> None:  # fmt: skip
        env = os.environ
        self._url = (url or env.get("RECOVERY_DESK_URL", "")).rstrip("/")
        self._token, self._token_file = token or env.get("RECOVERY_DESK_TOKEN", ""), ""
        if not self._token:
            self._token_file = env.get("RECOVERY_DESK_TOKEN_FILE", "")
        self._job = job or _job_of(env)
        self._restart = _whole(env.get("RECOVERY_DESK_RESTART") or env.get("SLURM_RESTART_COUNT") or 0)
        self._restart = self._restart if restart is None else restart
        own = next((found for found in map(_whole, map(env.get, RANKS)) if found is not None), None)
        self._rank = own if rank is None else rank
        self._every_rank = (ranks or env.get("RECOVERY_DESK_RANKS", "zero")) == "all"
        self._flush_s, self._timeout_s = flush_s, timeout_s
        self._rows: deque[dict[str, Any]] = deque(maxlen=max(1, queue_rows))
        self.sent = self.dropped = self.refused = self._failures = 0
        wanted = self._every_rank or not self._rank
        self.enabled = bool(self._url and (self._token or self._token_file) and self._job and wanted)
        self._begin()
        if self.enabled:
            "desk".encode("idna")  # loads what resolving a name needs: a fork must not meet a thread in an import
            _all.add(self)
            atexit.register(_close_at_exit, weakref.ref(self))

    def _begin(self) -> None:
        """As new, also in a forked child: the parent's rows are the parent's to send, and its thread is not here."""
        self._thread: threading.Thread | None = None
        self._gate = threading.Lock()  # taken by whoever starts the thread, given back only where it did not start
        self._wake, self._quiet = threading.Event(), threading.Event()
        self._rows.clear()
        self._batches: deque[dict[str, Any]] = deque()
        self._closing = self._over = False
        self._tries, self._not_before, self._asked_until, self._heard_at = 0, 0.0, 0.0, 0.0
        self._told: set[str] = set()

    # --- what the training script calls -------------------------------------------------------------------------------

    def progress(
        self, step: int, loss: Any = None, *, throughput: Any = None, step_time_s: Any = None, tokens: Any = None,
        rank: int | None = None,
    ) -> None:  # fmt: skip
        """A step is done. Numbers or one-element tensors; a tensor is read in the background, no device waits for it.

        throughput: in any unit, always the same one; tokens: trained on since the run began.
        """
        self._put(
            "progress", step=step, loss=loss, throughput=throughput, step_time_s=step_time_s, tokens=tokens, rank=rank
        )

    def save_started(self, step: int, path: str = "") -> None:
        """A checkpoint save begins; `path` is the folder that holds the run's checkpoints."""
        self._put("save_started", step=step, path=path)

    def save_durable(self, step: int, path: str = "") -> None:
        """A checkpoint is whole on disk (of an asynchronous save: not before that)."""
        self._put("save_durable", step=step, path=path)

    def loaded(self, step: int, path: str = "") -> None:
        """The training goes on from a checkpoint."""
        self._put("loaded", step=step, path=path)

    def fresh_start(self) -> None:
        """The training begins without a checkpoint."""
        self._put("fresh_start")

    def phase(self, name: str) -> None:
        """One of training, saving, evaluating, finishing: steps may pause meanwhile."""
        self._put("phase", phase=name)

    def finished(self) -> None:
        """The training came to its planned end."""
        self._put("finished")

    def failure(self, what: Any) -> None:
        """What went wrong: a text, or an exception with its traceback."""
        try:
            if self._failures >= MOST_FAILURES:
                return
            self._failures += 1
            if isinstance(what, BaseException):
                what = "".join(traceback.format_exception(type(what), what, what.__traceback__))
            self._put("failure", text=str(what)[-FAILURE_CHARS:])
        except Exception:  # noqa: BLE001 - nothing here may end a training
            self.refused += 1

    def flush(self, timeout_s: float = EXIT_S) -> bool:
        """Wait until everything is sent, at most so long; True where it is."""
        try:
            until = time.monotonic() + timeout_s
            self._quiet.clear()
            self._wake.set()
            while self._thread is not None and self._thread.is_alive() and not self._over:
                left = until - time.monotonic()
                if left <= 0 or (self._quiet.wait(min(left, 0.05)) and not self._rows and not self._batches):
                    break
                self._quiet.clear()
            return not self._rows and not self._batches
        except Exception:  # noqa: BLE001 - as above
            return False

    def close(self, timeout_s: float = EXIT_S) -> None:
        """Send what is left, at most for so long, and stop."""
        self._closing = True
        self.flush(timeout_s)
        self._over = True
        self._wake.set()

    def __enter__(self) -> RecoveryDesk:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """An error within `with desk:` is told, and goes on its way."""
        if isinstance(error, Exception):
            self.failure(error)
        self.close()

    # --- the queue ----------------------------------------------------------------------------------------------------

    def _put(self, kind: str, **fields: Any) -> None:
        if not self.enabled or self._over:
            return
        try:
            row = {name: _light(value) for name, value in fields.items() if value is not None and value != ""}
            row["kind"], row["at"] = kind, time.time()
            if self._every_rank and self._rank is not None:
                row.setdefault("rank", self._rank)
            if len(self._rows) == self._rows.maxlen:
                self.dropped += 1
            self._rows.append(row)
            if self._thread is None:
                self._start()
        except Exception:  # noqa: BLE001 - nothing here may end a training
            self.refused += 1

    def _start(self) -> None:
        if not self._gate.acquire(False):
            return
        self._thread = threading.Thread(target=self._run, name="recovery-desk", daemon=True)
        try:
            self._thread.start()
        except Exception:  # no room for another thread now: the next row tries again
            self._thread = None
            self._gate.release()
            raise

    # --- the background thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over:
            try:
                self._send_all()
            except Exception:  # noqa: BLE001 - the thread must outlive whatever a network does
                _log.debug("recovery desk client", exc_info=True)
                self._later("something unforeseen came up", None)
            self._quiet.set()
            wait = max(self._not_before - time.monotonic(), 0.05) if self._batches else self._flush_s
            self._wake.wait(min(wait, CLOSING_RETRY_S) if self._closing else wait)
            self._wake.clear()

    def _send_all(self) -> None:
        while not self._over and time.monotonic() >= (self._asked_until if self._closing else self._not_before):
            if not self._batches and not self._take():
                return
            if not self._send(self._batches[0]):
                return

    def _take(self) -> bool:
        """Make the next batch; False where there is nothing to tell. A row is always in the queue or in a batch."""
        if not self._rows and (self._closing or time.monotonic() - self._heard_at < HEARTBEAT_S):
            return False
        rows: list[dict[str, Any]] = []
        self._batches.append({"batch": uuid.uuid4().hex, "rows": rows})
        while self._rows and len(rows) < BATCH_ROWS:
            row = self._rows.popleft()
            try:
                rows.append({name: _number(value) for name, value in row.items()})
            except Exception:  # noqa: BLE001 - a number that can't be read: one row is lost, not the batch
                self.refused += 1
        return True

    def _send(self, batch: dict[str, Any]) -> bool:
        """True where the batch is done with."""
        body = dict(batch, job=self._job, restart=self._restart, dropped=self.dropped, client=VERSION)
        try:
            status, retry_after, answer = self._post(json.dumps(body, allow_nan=False).encode())
        except (OSError, http.client.HTTPException, ValueError):
            return self._later("the desk gave no answer", None)
        code, why = _error(answer)
        if status == 200 and isinstance(answer.get("accepted"), int):
            refused = len(answer.get("refused") or ())
            if refused:
                self._tell("the desk did not take some rows" + _first(answer["refused"]), "the others were taken.")
            return self._done(sent=len(batch["rows"]) - refused, refused=refused)
        if status == 413 and len(batch["rows"]) > 1:
            half = len(batch["rows"]) // 2
            self._batches.popleft()
            for rows in (batch["rows"][half:], batch["rows"][:half]):
                self._batches.appendleft({"batch": uuid.uuid4().hex, "rows": rows})
            return True
        if status in (400, 413):
            self._tell(f"the desk can't take some rows (status {status}){why}", "they are left out.")
            return self._done(sent=0, refused=len(batch["rows"]))
        if code == "attempt_over":  # nothing more is taken for this attempt
            self._over = True
            self.refused += len(batch["rows"]) + len(self._rows)
            self._rows.clear()
            return self._done(sent=0, refused=0)
        return self._later(f"the desk answered with status {status}{why}", retry_after)

    def _done(self, *, sent: int, refused: int) -> bool:
        if self._batches:
            self._batches.popleft()
        self._tries, self._not_before, self._asked_until, self._heard_at = 0, 0.0, 0.0, time.monotonic()
        self.sent += sent
        self.refused += refused
        return True

    def _later(self, why: str, retry_after: float | None) -> bool:
        """Keep the batch and wait: as long as the desk asks for, else twice as long each time."""
        delay = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(self._tries, 10)) * _jitter.uniform(0.5, 1.0)
        self._tries += 1
        self._asked_until = time.monotonic() + (retry_after or 0.0)
        self._not_before = max(self._asked_until, time.monotonic() + (delay if retry_after is None else 0.0))
        self._tell(why, "rows are kept and sent later, the training goes on.")
        return False

    def _tell(self, what: str, then: str) -> None:
        """Into the job's own log, each thing once: numbers in it don't make it another."""
        key = "".join(char for char in what if not char.isdigit())
        if key not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(key)
            _log.warning("recovery desk client: %s; %s", what, then)

    def _post(self, body: bytes) -> tuple[int, float | None, dict[str, Any]]:
        """One request: no proxy, no redirect, a connection of its own."""
        parts = urlsplit(self._url)
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=os.environ.get("RECOVERY_DESK_CA_FILE") or None)
            connection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=self._timeout_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self._timeout_s)
        headers = {"Authorization": "Bearer " + self._secret(), "Content-Type": "application/json"}
        try:
            connection.request("POST", parts.path + "/api/v1/ingest", body, headers)
            answer = connection.getresponse()
            found = _json(answer.read(ANSWER_BYTES))
            return answer.status, _seconds(answer.getheader("Retry-After")), found
        finally:
            connection.close()

    def _secret(self) -> str:
        """The token; a file is read each time, so that it can be renewed while the job runs."""
        if not self._token_file:
            return self._token
        with open(self._token_file, encoding="ascii") as file:  # noqa: PTH123 - this file knows nothing but the basics
            return file.read(1000).strip()


def _light(value: Any) -> Any:
    """A tensor without its graph: what waits in the queue must not keep memory. Nothing is read from a device here."""
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return str(value)
    return value.detach() if hasattr(value, "detach") else value


def _number(value: Any) -> Any:
    """As JSON can say it. A whole number stays one, whether the loop counts in NumPy's integers or in a tensor."""
    if isinstance(value, str) or (isinstance(value, int) and abs(value) < EXACT):
        return value
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    return int(number) if number.is_integer() and abs(number) < EXACT else number


def _error(answer: dict[str, Any]) -> tuple[str, str]:
    """Code and message of a refusal, the message ready to be put behind another."""
    error = answer.get("error")
    return (str(error.get("code", "")), _behind(error.get("message"))) if isinstance(error, dict) else ("", "")


def _first(refused: Any) -> str:
    """What is wrong with the first of the rows that were not taken."""
    row = refused[0] if isinstance(refused, list) and refused and isinstance(refused[0], dict) else {}
    return _behind(f"{row.get('field', '')}: {row.get('message', '')}" if row.get("message") else "")


def _behind(words: Any) -> str:
    text = "".join(char for char in str(words or "")[:TOLD_CHARS] if char.isprintable())
    return f": {text}" if text else ""


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(header: str | None) -> float | None:
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S) if math.isfinite(seconds) else None


def _close_at_exit(reference: Any) -> None:
    desk = reference()
    if desk is not None:
        desk.close()


def _after_fork() -> None:
    for desk in list(_all):
        desk._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# --- callbacks -------------------------------------------------------------------------------------------------------


def _harmless(cls: Any) -> Any:
    """No hook of this class raises, whatever a trainer's release hands it."""

    def guarded(hook: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> None:
            try:
                hook(*args, **kwargs)
            except Exception:  # noqa: BLE001 - nothing here may end a training
                _log.warning("recovery desk client: a callback did not understand this trainer; the training goes on.")

        return call

    for name, hook in list(vars(cls).items()):
        if name.startswith("on_"):
            setattr(cls, name, guarded(hook))
    return cls


@_harmless
class HuggingFaceCallback:
    """Trainer(callbacks=[HuggingFaceCallback()]): of transformers, and of what is built upon it (TRL, Axolotl)."""

    def __init__(self, desk: RecoveryDesk | None = None) -> None:
        self.desk = desk or RecoveryDesk()
        self._next: Any = None  # told after the step's own report, which comes first: progress would end it

    def __getattr__(self, name: str) -> Any:
        """Every other event of the trainer, those of later releases too, means nothing to us."""
        if name.startswith("on_"):
            return _nothing
        raise AttributeError(name)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        folder = str(getattr(args, "output_dir", ""))
        if getattr(state, "global_step", 0):
            self.desk.loaded(state.global_step, folder)
        else:
            self.desk.fresh_start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if getattr(control, "should_evaluate", False):
            self._next = lambda: self.desk.phase("evaluating")
        elif getattr(control, "should_save", False):
            self._next = lambda: self._saves(args, state)
        if not getattr(control, "should_log", False):
            self._tell_next()

    on_epoch_end = on_step_end  # what is due at the end of an epoch is asked for only there

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self.desk.progress(state.global_step, logs["loss"])
        self._tell_next()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._next = None
        self.desk.phase("training")
        if getattr(control, "should_save", False):
            self._saves(args, state)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._next = None
        self.desk.save_durable(state.global_step, str(getattr(args, "output_dir", "")))

    def _saves(self, args: Any, state: Any) -> None:
        self.desk.save_started(state.global_step, str(getattr(args, "output_dir", "")))

    def _tell_next(self) -> None:
        told, self._next = self._next, None
        if told is not None:
            told()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.desk.finished()


def _nothing(*args: Any, **kwargs: Any) -> None:
    """An event that is not ours."""


@_harmless
class _LightningHooks:
    """What Lightning calls; `lightning_callback` joins it with the Callback class of the Lightning in use."""

    desk: RecoveryDesk
    every_n_steps = 1
    _saving = -1  # the step whose save was told: Lightning writes a file for each of the names that it keeps

    def on_train_start(self, trainer: Any, module: Any) -> None:
        if trainer.global_step:
            self.desk.loaded(trainer.global_step, _folder(trainer))
        else:
            self.desk.fresh_start()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int, *rest: Any) -> None:
        if trainer.global_step % self.every_n_steps == 0:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self.desk.progress(trainer.global_step, loss)

    def on_validation_start(self, trainer: Any, module: Any) -> None:
        if not getattr(trainer, "sanity_checking", False):
            self.desk.phase("evaluating")

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        if not getattr(trainer, "sanity_checking", False):
            self.desk.phase("training")

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: Any) -> None:
        if trainer.global_step != self._saving:
            self._saving = trainer.global_step
            self.desk.save_started(trainer.global_step, _folder(trainer))

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        self.desk.failure(exception)

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.desk.finished()


def _folder(trainer: Any) -> str:
    return str(getattr(getattr(trainer, "checkpoint_callback", None), "dirpath", "") or "")


def lightning_callback(desk: RecoveryDesk | None = None, every_n_steps: int = 1) -> Any:
    """Trainer(callbacks=[lightning_callback()]): of lightning or pytorch_lightning, whichever the script imported."""
    bases = [getattr(sys.modules.get(name), "Callback", None) for name in ("lightning.pytorch", "pytorch_lightning")]
    found = [base for base in bases if isinstance(base, type)][:1]
    made = type("RecoveryDeskCallback", (_LightningHooks, *found), {})()
    made.desk, made.every_n_steps = desk or RecoveryDesk(), max(1, every_n_steps)
    return made
