"""Which log files are read: what the comment names, else what Slurm gives; and a site's own pattern for their lines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from recovery.core.policy import DEFAULT_RULES
from recovery.models import Attempt, LogFile, Sample, Signal
from recovery.pipeline import log_files as module
from recovery.pipeline import reading
from recovery.pipeline.ingest import positions, store_looks, superseded
from recovery.pipeline.log_files import LONGEST_PATH, NO_FILE, log_files, log_paths, site_pattern
from recovery.pipeline.metrics_source import read_metrics
from recovery.pipeline.reading import Look, read_attempt
from recovery.sources import find_logs, rotated
from recovery.sources.cursor import Cursor
from tests.core.logs.lines import megatron
from tests.factories import ago, make_attempt, make_job, make_policy, make_run

pytestmark = pytest.mark.django_db
Make = Callable[..., Attempt]


@pytest.fixture
def attempt(tmp_path: Path, settings: Any) -> Make:
    settings.LOG_ROOTS = [str(tmp_path)]

    def make(log: Any = None, **fields: Any) -> Attempt:
        options = {} if log is None else {"log": log}
        job = make_job(options=options, **{"job_id": "4711_3", "raw_id": "4740", "name": "train", **fields})
        return make_attempt(job=job, nodes=["gpu-01", "gpu-02"], started_at=ago(3600), ended_at=None, last_step=None)

    return make


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.out").write_text(text)


def ingest(attempt: Attempt, *, now: datetime) -> Look:
    """One look at the logs of one attempt."""
    found = read_attempt(attempt, positions([attempt.pk]).get(attempt.pk, {}), now=now)
    store_looks([found], now=now)
    return found


def test_without_a_comment_the_jobs_own_output_is_read(attempt: Make) -> None:
    made = attempt(stdout="/logs/a.out", stderr="/logs/a.err")
    assert log_files(made).paths == ("/logs/a.out", "/logs/a.err")
    assert log_files(attempt(stdout="/dev/null", stderr="")).trouble == NO_FILE


def test_an_array_tasks_own_number_is_filled_in(attempt: Make) -> None:
    assert log_files(attempt("/logs/%A_%a-%j.out")).paths == ("/logs/4711_3-4740.out",)
    assert log_paths(attempt("/logs/%j-%t.out").job) == ["/logs/4740-%t.out"]


def test_a_log_per_task_and_a_list_of_patterns(attempt: Make, tmp_path: Path) -> None:
    made = attempt([f"{tmp_path}/r%t.out", f"{tmp_path}/extra.out"])
    write(tmp_path, r1="x\n", r0="x\n")
    found = log_files(made)
    assert [Path(path).name for path in found.paths] == ["r0.out", "r1.out", "extra.out"]
    assert [log.rank for log in found.files] == [0, 1, None]


def test_a_pattern_that_names_no_file_is_missing_and_its_folder_is_kept_in_sight(attempt: Make, tmp_path: Path) -> None:
    found = log_files(attempt(f"{tmp_path}/r%t.out"))
    assert (found.paths, found.missing, list(found.marks)) == ((), f"{tmp_path}/r%t.out", [str(tmp_path)])


def test_one_pattern_of_several_may_name_nothing(attempt: Make, tmp_path: Path) -> None:
    write(tmp_path, r0="x\n")
    found = log_files(attempt([f"{tmp_path}/r%t.out", f"{tmp_path}/extra/*.err"]))
    assert ([Path(path).name for path in found.paths], found.missing) == (["r0.out"], "")


def test_a_rank_without_a_label_in_its_lines_has_the_one_of_its_file(attempt: Make, tmp_path: Path) -> None:
    made = attempt(f"{tmp_path}/r%t.out")
    lines = "".join(f"step {step} loss 2.5\n" for step in (10, 20, 30))
    write(tmp_path, r0=lines, r3=lines)
    ingest(made, now=ago(0))
    assert set(Sample.objects.values_list("rank", "step")) == {(rank, s) for rank in (0, 3) for s in (10, 20, 30)}
    assert set(LogFile.objects.exclude(line=0).values_list("path", "line")) == {
        (f"{tmp_path}/r0.out", 3),
        (f"{tmp_path}/r3.out", 3),
    }


def test_files_that_are_left_out_are_said_and_blind_nobody(
    attempt: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_logs, "MOST_FILES", 2)
    made = attempt(f"{tmp_path}/r%t.out")
    write(tmp_path, r0="step 1 loss 2\nstep 2 loss 2\n", r1="", r2="", r7="")
    assert [log.rank for log in log_files(made).files] == [0, 7]
    ingest(made, now=ago(0))
    said = "are read: there are 2 more than the 2 that are; the highest rank is among those."
    assert LogFile.objects.get(path=str(tmp_path)).error == f"Not all files of {tmp_path}/r%t.out {said}"
    assert made.blind_reason == ""
    (tmp_path / "r1.out").unlink()
    (tmp_path / "r2.out").unlink()
    ingest(made, now=ago(-30))
    assert LogFile.objects.get(path=str(tmp_path)).error == ""


def test_a_job_that_makes_new_files_for_ever_fills_no_table(
    attempt: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_FOLLOWED", 5)
    made = attempt(f"{tmp_path}/r*.out")
    for look in range(4):
        for old in tmp_path.glob("*.out"):
            old.unlink()
        write(tmp_path, **{f"r{look}{number}": "step 1 loss 2\n" for number in range(3)})
        ingest(made, now=ago(30 - look))
    assert LogFile.objects.count() <= 5 + 1  # and the folder
    assert LogFile.objects.get(path=str(tmp_path)).error.startswith("More than ")


def test_of_a_pattern_that_looks_into_more_folders_than_are_kept_none_is_taken_for_quiet(
    attempt: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FOLDERS", 3)
    made = attempt(f"{tmp_path}/*/*.out")
    for number in range(5):
        (tmp_path / f"d{number}").mkdir()
    assert list(log_files(made).marks.values()) == [""]


def test_many_logs_full_of_progress_are_read_over_several_looks(
    attempt: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_SIGNALS", 3)
    made = attempt(f"{tmp_path}/r%t.out")
    lines = "".join(f"step {step} loss 2\n" for step in range(1, 5))
    write(tmp_path, r0=lines, r1=lines, r2=lines)
    assert ingest(made, now=ago(30)).more
    assert set(Sample.objects.values_list("rank", flat=True)) == {0}
    assert ingest(made, now=ago(20)).more
    assert not ingest(made, now=ago(10)).more
    assert set(Sample.objects.values_list("rank", "step")) == {
        (rank, step) for rank in range(3) for step in range(1, 5)
    }


def test_a_log_that_appears_late_among_others_is_read_from_its_start(attempt: Make, tmp_path: Path) -> None:
    made = attempt(f"{tmp_path}/r%t.out")
    write(tmp_path, r0="step 1 loss 2\nstep 2 loss 2\n")
    ingest(made, now=ago(0))
    write(tmp_path, r5="step 7 loss 2\nstep 8 loss 2\n")
    ingest(made, now=ago(-30))
    assert set(Sample.objects.values_list("rank", "step")) == {(0, 1), (0, 2), (5, 7), (5, 8)}


def test_a_log_that_is_gone_is_searched_for_once_and_read_when_it_is_back(
    attempt: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, log = attempt(f"{tmp_path}/a.out"), tmp_path / "a.out"
    write(tmp_path, a="step 1 loss 2\nstep 2 loss 2\n")
    ingest(made, now=ago(30))
    searched: list[str] = []

    def search(path: str, cursor: Cursor, *, roots: Sequence[str], setting: str) -> str:
        searched.append(path)
        return ""

    monkeypatch.setattr(rotated, "renamed", search)
    log.rename(tmp_path / "elsewhere")
    for look in range(3):
        ingest(made, now=ago(20 - look))
        assert "does not exist" in made.blind_reason
    assert searched == [str(log)]
    write(tmp_path, a="step 3 loss 2\nstep 4 loss 2\n")
    ingest(made, now=ago(0))
    assert (made.last_step, made.blind_reason) == (4, "")


def test_a_log_that_is_emptied_is_said_unless_its_copy_was_read(attempt: Make, tmp_path: Path) -> None:
    made, log = attempt(f"{tmp_path}/a.out"), tmp_path / "a.out"
    write(tmp_path, a="step 1 loss 2\n")
    ingest(made, now=ago(30))
    write(tmp_path, a="step 1 loss 2\nstep 2 loss 2\nstep 3 loss 2\n")
    shutil.copy(log, tmp_path / "a.out.1")
    write(tmp_path, a="step 4 loss 2\n")
    ingest(made, now=ago(20))
    assert set(Sample.objects.values_list("step", flat=True)) == {1, 2, 3, 4}
    assert LogFile.objects.get().error == ""
    write(tmp_path, a="step 7 loss 2\n")
    for look in range(3):
        ingest(made, now=ago(10 - look))
        assert LogFile.objects.get().error.startswith("It was emptied or replaced while it was followed (seen ")
    assert (LogFile.objects.get().mark != "", made.last_step, made.blind_reason) == (True, 7, "")


def test_that_a_restart_empties_the_log_is_nothing_to_be_said(attempt: Make, tmp_path: Path) -> None:
    made = attempt(f"{tmp_path}/a.out")
    write(tmp_path, a="step 1 loss 2\nstep 2 loss 2\n")
    ingest(made, now=ago(30))
    again = make_attempt(job=made.job, number=1, started_at=ago(25), ended_at=None, last_step=None)
    write(tmp_path, a="step 3 loss 2\nstep 4 loss 2\n")
    ingest(again, now=ago(20))
    assert again.last_step == 4
    assert not LogFile.objects.exclude(error="").exists()


def test_the_policys_pattern_is_the_one_in_force() -> None:
    assert site_pattern() is None
    make_policy(rules=DEFAULT_RULES)
    assert site_pattern() is None
    make_policy(rules={**DEFAULT_RULES, "log_pattern": r"upd (?P<step>\d+)"})
    pattern = site_pattern()
    assert pattern is not None
    assert pattern.text == r"upd (?P<step>\d+)"


def test_the_newest_step_of_a_long_backlog_counts_before_its_turn_comes(attempt: Make, tmp_path: Path) -> None:
    made = attempt(f"{tmp_path}/big.out")
    with (tmp_path / "big.out").open("w") as file:
        for number in (1, 2, 3):
            file.write(f"{megatron(number)}\n")
        for _ in range(25):
            file.write(("chatter " * 12 + "\n") * 10_000)
        file.write(f"{megatron(900)}\n")
    assert ingest(made, now=ago(0)).more
    assert made.last_step == 900
    assert set(Sample.objects.values_list("step", flat=True)) == {1, 2, 3}
    while ingest(made, now=ago(-10)).more:
        pass
    assert set(Sample.objects.values_list("step", flat=True)) == {1, 2, 3, 900}
    assert Sample.objects.count() == 4


def test_a_site_pattern_of_the_policy_reads_what_is_blind_without_it(attempt: Make, tmp_path: Path) -> None:
    made = attempt(f"{tmp_path}/a.out")
    write(tmp_path, a="".join(f"[upd] {number}/90 | L=2.{number}\n" for number in (7, 8)))
    read_attempt(made, {}, now=ago(0))
    assert made.last_step is None
    make_policy(rules={**DEFAULT_RULES, "log_pattern": r"\[upd\] (?P<step>\d+)/\d+ \| L=(?P<loss>\S+)"})
    found = read_attempt(made, {}, now=ago(0), own=site_pattern())
    assert [(signal.step, signal.loss) for signal in found.signals] == [(7, 2.7), (8, 2.8)]
    assert made.last_step == 8


# --- a file that one job after the other appends to -------------------------------------------------------------------

ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def chained(tmp_path: Path, settings: Any, **options: Any) -> tuple[Attempt, Attempt]:
    """Two jobs of a run with one output file; the second one began when the first had ended."""
    settings.LOG_ROOTS = [str(tmp_path)]
    run, made = make_run(), []
    for times in ({"started_at": ago(3600), "ended_at": ago(1800)}, {"started_at": ago(900), "ended_at": None}):
        job = make_job(run=run, stdout=str(tmp_path / "train.out"), stderr="", options=options)
        made.append(make_attempt(job=job, **times, nodes=["gpu-01"], first_step=None, last_step=None, read_at=None))
    return made[0], made[1]


def add(tmp_path: Path, *lines: str, name: str = "train.out") -> None:
    with (tmp_path / name).open("a") as file:
        file.writelines(line + "\n" for line in lines)


def test_a_line_of_a_rotated_log_is_kept_however_long_its_path(attempt: Make, tmp_path: Path) -> None:
    folder = tmp_path / "/".join(["x" * 200] * 4)
    folder.mkdir(parents=True)
    log = folder / ("y" * (LONGEST_PATH - len(str(folder)) - 1))
    made = attempt(stdout=str(log))
    log.write_text("one\n")
    ingest(made, now=ago(100))
    with log.open("a") as file:
        file.write(f"{ECC}\n")
    log.rename(f"{log}.1")
    ingest(made, now=ago(50))
    assert Signal.objects.get().file == str(log)


def test_the_next_job_of_a_run_reads_on_in_a_file_that_it_appends_to(tmp_path: Path, settings: Any) -> None:
    first, second = chained(tmp_path, settings)
    add(tmp_path, *(megatron(step, stamp="") for step in (1, 2, 3)), ECC)
    ingest(first, now=ago(1790))
    add(tmp_path, megatron(2, stamp=""))
    look = ingest(second, now=ago(800))
    assert [(signal.kind, signal.step, signal.line) for signal in look.signals] == [("progress", 2, 5)]
    assert (second.first_step, second.last_step) == (2, 2)


def test_what_nobody_had_read_of_the_job_before_is_told_by_its_times(tmp_path: Path, settings: Any) -> None:
    first, second = chained(tmp_path, settings)
    add(tmp_path, megatron(1, stamp=""))
    ingest(first, now=ago(1900))
    add(tmp_path, megatron(9, stamp=f"{ago(1850):%Y-%m-%d %H:%M:%S.%f}"), ECC)
    add(tmp_path, megatron(5, stamp=f"{ago(820):%Y-%m-%d %H:%M:%S.%f}"))
    look = ingest(second, now=ago(800))
    assert [(signal.kind, signal.step) for signal in look.signals] == [("progress", 5)]


def test_a_file_that_the_next_job_truncates_is_read_from_its_start(tmp_path: Path, settings: Any) -> None:
    first, second = chained(tmp_path, settings)
    add(tmp_path, *(megatron(step, stamp="") for step in (1, 2, 3)))
    ingest(first, now=ago(1790))
    (tmp_path / "train.out").write_text(megatron(2, stamp="") + "\n")
    assert [signal.step for signal in ingest(second, now=ago(800)).signals] == [2]


def test_where_another_run_stopped_in_a_file_is_nothing_to_go_by(tmp_path: Path, settings: Any) -> None:
    first, second = chained(tmp_path, settings)
    add(tmp_path, megatron(1, stamp=""))
    ingest(first, now=ago(1790))
    second.job.run = make_run()
    second.job.save()
    assert [signal.step for signal in ingest(second, now=ago(800)).signals] == [1]


def test_who_has_ended_reads_no_more_where_the_next_job_writes(tmp_path: Path, settings: Any) -> None:
    first, second = chained(tmp_path, settings)
    assert superseded([first, second]) == set()  # its end was not read yet
    first.read_at = ago(1700)
    assert superseded([first, second]) == {first.pk}
    second.job.stdout = str(tmp_path / "other.out")
    second.job.save()
    assert superseded([first, second]) == set()


def test_a_metrics_file_that_jobs_append_to_is_read_on_as_well(tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "m.jsonl"
    first, second = chained(tmp_path, settings, metrics=str(path))
    add(tmp_path, '{"step": 1, "loss": 2}', '{"step": 2, "loss": 2}', name="m.jsonl")
    read_metrics(first, now=ago(1790)).done()
    add(tmp_path, '{"step": 2, "loss": 2}', name="m.jsonl")
    assert [signal.step for signal in read_metrics(second, now=ago(800)).signals] == [2]


def test_a_csv_file_that_jobs_append_to_has_its_header_once(tmp_path: Path, settings: Any) -> None:
    first, second = chained(tmp_path, settings, metrics=str(tmp_path / "m.csv"))
    add(tmp_path, "epoch,step,loss", "0,1,2.5", name="m.csv")
    assert [signal.step for signal in read_metrics(first, now=ago(1800)).signals] == [1]
    read_metrics(first, now=ago(1790)).done()
    add(tmp_path, "0,2,2.25", name="m.csv")
    assert [(signal.step, signal.loss) for signal in read_metrics(second, now=ago(800)).signals] == [(2, 2.25)]


def test_a_wildcard_in_a_jobs_name_leads_to_nobody_elses_metrics(tmp_path: Path, settings: Any) -> None:
    settings.LOG_ROOTS = [str(tmp_path)]
    job = make_job(name="*", options={"metrics": f"{tmp_path}/%x-?.jsonl"})
    attempt = make_attempt(job=job, started_at=ago(3600), ended_at=None)
    add(tmp_path, '{"step": 7, "loss": 2}', name="other-1.jsonl")
    add(tmp_path, '{"step": 1, "loss": 2}', name="*-1.jsonl")
    assert [signal.step for signal in read_metrics(attempt, now=ago(800)).signals] == [1]
