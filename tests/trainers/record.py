"""Refresh tests/trainers/recorded/ from real trainers: python tests/trainers/record.py PYTHON NAME...

PYTHON is the interpreter of an environment that holds the trainer; nothing of it is needed to run the tests:

    hf, hf_resumes, hf_nan, hf_nan_filtered   pip install transformers accelerate
    trl                           pip install trl datasets
    lightning, lightning_tqdm     pip install lightning
    dcp                           pip install torch numpy
    deepspeed                     pip install deepspeed (its build wants --no-build-isolation and torch)
    hf_deepspeed                  the same, with transformers and accelerate
    olmo_core                     pip install ai2-olmo-core
    composer                      pip install mosaicml
    orbax                         pip install orbax-checkpoint jax

    hf_push, lightning_push       as hf and lightning: with the client's callback, which pushes to a desk on loopback

Each trains a model of a few numbers on the CPU, without any download, is killed in the middle of a save where there is
one to be killed in, and started again. Kept are its log as it is, and its folder at that moment and at the end. Those
that push run half of the way, then the rest; kept are the rows that came.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from tests.client.desk_server import running_desk  # noqa: E402

CLIENT = ROOT / "recovery" / "client"
BASE = Path("/tmp/ckpt")  # stands in the logs, so it is the same everywhere
PATIENCE_S = 300
LARGEST = 64 * 1024  # of a file that is kept
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
# holds the settings of this machine and is read by nobody
EMPTIED = "training_args.bin"
LINKS = re.compile(rb"https?://[^ )]+")
PROCESSOR = re.compile(rb"(?:AMD|Intel)[ -~]{3,60}")  # Composer saves what it ran on; the length stays
VERSIONS = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    script: str
    packages: tuple[str, ...]
    kill_when: Callable[[Path], bool] | None = None  # None: run once, to its end
    dies: bool = False  # the script kills itself in a save, when it is told "die"
    options: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    pushes: bool = False


def within(folder: str, *, has: str, lacks: str) -> Callable[[Path], bool]:
    def reached(run: Path) -> bool:
        names = {each.name for each in (run / folder).iterdir()} if (run / folder).is_dir() else set()
        return has in names and lacks not in names

    return reached


def there(name: str) -> Callable[[Path], bool]:
    return lambda run: (run / name).exists()


def orbax_temporary(run: Path) -> bool:
    return run.is_dir() and any(each.name.startswith("8.orbax") for each in run.iterdir())


HF = within("checkpoint-12", has="model.safetensors", lacks="trainer_state.json")
SCENARIOS = {
    "hf": Scenario(script="hf_trainer", packages=("transformers", "accelerate", "torch"), kill_when=HF),
    "hf_resumes": Scenario(
        script="hf_trainer",
        packages=("transformers", "accelerate", "torch"),
        kill_when=within("checkpoint-8", has="trainer_state.json", lacks="nothing"),
    ),
    "hf_nan": Scenario(script="hf_trainer", packages=("transformers", "torch"), options=("nan",)),
    "hf_nan_filtered": Scenario(script="hf_trainer", packages=("transformers", "torch"), options=("nan", "filter")),
    "trl": Scenario(
        script="trl_sft",
        packages=("trl", "transformers", "torch"),
        kill_when=within("checkpoint-8", has="trainer_state.json", lacks="nothing"),
    ),
    "lightning": Scenario(
        script="lightning_trainer", packages=("lightning", "torch"), kill_when=there("epoch=1-step=12.ckpt")
    ),
    "lightning_tqdm": Scenario(
        script="lightning_trainer",
        packages=("lightning", "torch"),
        options=("tqdm",),
        kill_when=there("epoch=1-step=12.ckpt"),
    ),
    "dcp": Scenario(
        script="dcp_loop",
        packages=("torch",),
        launcher=TORCHRUN,
        kill_when=lambda run: False,
        dies=True,
    ),
    "deepspeed": Scenario(
        script="deepspeed_loop",
        packages=("deepspeed", "torch"),
        launcher=TORCHRUN,
        kill_when=lambda run: False,
        dies=True,
    ),
    "hf_deepspeed": Scenario(
        script="hf_trainer",
        packages=("transformers", "deepspeed", "torch"),
        options=("deepspeed",),
        launcher=TORCHRUN,
        kill_when=lambda run: False,
        dies=True,
    ),
    "olmo_core": Scenario(
        script="olmo_core_trainer",
        packages=("ai2-olmo-core", "torch"),
        launcher=TORCHRUN,
        kill_when=lambda run: False,
        dies=True,
    ),
    "composer": Scenario(
        script="composer_trainer", packages=("mosaicml", "torch"), kill_when=there("ep1-ba12-rank0.pt")
    ),
    "hf_push": Scenario(
        script="hf_trainer",
        packages=("transformers", "accelerate", "torch"),
        options=("push", "evaluate"),
        pushes=True,
    ),
    "lightning_push": Scenario(
        script="lightning_trainer",
        packages=("lightning", "torch"),
        options=("push", "evaluate"),
        pushes=True,
    ),
    "orbax": Scenario(script="orbax_manager", packages=("orbax-checkpoint", "jax"), kill_when=orbax_temporary),
}


def main(python: str, names: Sequence[str]) -> int:
    for name in names:
        record(python, name, SCENARIOS[name])
    return 0


def record(python: str, name: str, scenario: Scenario) -> None:
    run, target = BASE / name, HERE / "recorded" / name
    for folder in (run, target):
        shutil.rmtree(folder, ignore_errors=True)
    target.mkdir(parents=True)
    run.mkdir(parents=True)
    if scenario.pushes:
        record_pushed(python, name, scenario, target)
    elif scenario.kill_when is None:
        start(python, name, scenario, target / "whole.log")
    else:
        die = ("die",) if scenario.dies else ()
        start(python, name, scenario, target / "killed.log", *die, kill_when=scenario.kill_when)
        keep(python, run, target / "killed")
        start(python, name, scenario, target / "resumed.log", "resume")
        keep(python, run, target / "resumed")
    installed = json.loads(subprocess.run([python, "-c", VERSIONS], capture_output=True, check=True).stdout)
    (target / "about.json").write_text(
        json.dumps({each: installed[each] for each in scenario.packages}, indent=1) + "\n"
    )


def record_pushed(python: str, name: str, scenario: Scenario, target: Path) -> None:
    """Run half of it, then the rest, and keep what the desk was told each time, with seconds since the first row."""
    for moment, option in (("half", "half"), ("resumed", "resume")):
        with running_desk() as desk:
            os.environ.update(
                RECOVERY_DESK_URL=desk.url, RECOVERY_DESK_TOKEN="rdp_x_y", RECOVERY_DESK_JOB="4711",
                PYTHONPATH=str(CLIENT),
            )  # fmt: skip
            log = target / f"{moment}.log"
            start(python, name, scenario, log, option)
            log.unlink()
        begin = min(row["at"] for row in desk.rows)
        rows = [{**row, "at": round(row["at"] - begin, 3)} for row in desk.rows]
        (target / f"{moment}.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def start(
    python: str,
    name: str,
    scenario: Scenario,
    log: Path,
    *options: str,
    kill_when: Callable[[Path], bool] | None = None,
) -> None:
    """Run it to its end, or until `kill_when` of its folder."""
    script = HERE / "scripts" / f"{scenario.script}.py"
    command = [python, *scenario.launcher, str(script), str(BASE / name), *scenario.options, *options]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "120"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            if kill_when is not None and kill_when(BASE / name):
                os.killpg(process.pid, signal.SIGKILL)
                break
            time.sleep(0.0002 if kill_when else 0.1)
        if process.poll() is None and time.monotonic() >= deadline:
            os.killpg(process.pid, signal.SIGKILL)
            raise SystemExit(f"{name} went on for {PATIENCE_S} s: nothing was recorded of it.")
        process.wait()
    print(f"{name} {' '.join(options)}: exit code {process.returncode}")
    where = str(Path(python).parent.parent)
    text = log.read_bytes().replace(where.encode(), b"/env").replace(str(HERE).encode(), b"/home/user")
    text = re.sub(rf"\b{re.escape(socket.gethostname())}\b".encode(), b"node-1", text)
    log.write_bytes(LINKS.sub(b"https://example.org/", text))


def keep(python: str, run: Path, target: Path) -> None:
    shutil.copytree(run, target, symlinks=True, ignore=shutil.ignore_patterns("README.md", "*.py"))
    for path in sorted(target.rglob("*")):
        if path.name == EMPTIED:
            subprocess.run([python, "-c", "import sys, torch; torch.save({}, sys.argv[1])", str(path)], check=True)
        elif path.is_file() and not path.is_symlink():
            if path.stat().st_size > LARGEST:
                raise SystemExit(f"{path} has {path.stat().st_size} bytes: make the model smaller.")
            path.write_bytes(PROCESSOR.sub(lambda found: b"x" * len(found[0]), path.read_bytes()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
