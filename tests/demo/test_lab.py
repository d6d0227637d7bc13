from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from recovery.demo import lab_conf, lab_host, lab_services
from recovery.demo.lab import SlurmLab, main
from recovery.demo.lab_conf import PORTS, LabError, LabSpec
from recovery.demo.lab_services import LabServices
from recovery.demo.processes import ProcessId, read_pid_file, wait_until
from tests import daemons


@pytest.fixture
def folder() -> Iterator[Path]:
    with daemons.short_folder() as found:
        found.chmod(0o755)
        yield found


@pytest.fixture
def lab(folder: Path) -> Iterator[SlurmLab]:
    """A lab of two nodes of this test alone, not up yet."""
    made = SlurmLab(folder / "lab", base_port=lab_host.free_base_port(), nodes=2)
    yield made
    made.wipe()


def recorded(lab: SlurmLab) -> dict[str, ProcessId]:
    files = (lab.root / "run").glob("*.pid")
    return {file.stem: process for file in files if (process := read_pid_file(file))}


# --- without Slurm ---------------------------------------------------------------------------------------------------


def test_ports_of_one_lab_are_its_own() -> None:
    ports = LabSpec(base_port=20_000, nodes=lab_conf.MAX_NODES).listening_ports
    assert len(set(ports)) == lab_conf.MAX_NODES + 3
    assert all(20_000 <= port < 20_000 + PORTS for port in ports)


@pytest.mark.parametrize("values", [{"nodes": 0}, {"nodes": 1000}, {"base_port": 80}, {"base_port": 65_500}])
def test_an_impossible_size_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(LabError, match="give"):
        LabSpec(**values)  # type: ignore[arg-type]


def test_a_spec_survives_its_file() -> None:
    spec = LabSpec(nodes=3, base_port=21_000, accounting=True, rest=True, gpus_per_node=8)
    assert LabSpec.from_json(spec.to_json()) == spec


def test_the_last_switch_has_the_rest_of_the_nodes() -> None:
    assert LabSpec(nodes=3, nodes_per_switch=2).switches == {"leaf1": ("n1", "n2"), "leaf2": ("n3",)}
    assert LabSpec().switches == {}


def test_a_lab_where_no_node_falls_silent_is_patient(tmp_path: Path) -> None:
    """Ten of them at once on two cores lost nodes, and requeued their jobs, for three seconds without an answer."""
    text = lab_conf.slurm_conf(LabSpec(slurmd_timeout_s=60), root=tmp_path, host="host")
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert [settings[name] for name in ("SlurmdTimeout", "MessageTimeout", "BatchStartTimeout")] == ["60", "10", "60"]


def test_everything_stays_in_the_folder_and_on_loopback(tmp_path: Path) -> None:
    text = lab_conf.slurm_conf(LabSpec(base_port=21_000, accounting=True), root=Path("/lab"), host="host")
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["CommunicationParameters"] == "NoInAddrAny,NoCtldInAddrAny"
    assert settings["SlurmctldHost"] == "host(127.0.0.1)"
    places = [value for value in settings.values() if value.startswith("/")]
    assert places
    assert all(value.startswith("/lab/") for value in places)
    assert "NoInAddrAny" in lab_conf.slurmdbd_conf(LabSpec(), root=Path("/lab"))


@pytest.mark.parametrize("root", ["/tmp/with blank", "/tmp/with,comma", "/tmp/%j", "/" + "long" * 30, "relative"])
def test_a_folder_that_slurm_would_misread_is_refused(root: str) -> None:
    with pytest.raises(LabError, match="another folder"):
        lab_conf.check_folder(Path(root))


def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program, path: None)
    monkeypatch.setattr(lab_host, "_has_plugin", lambda name: False)
    assert lab_host.missing_packages(accounting=False) == ["munge", "slurm-client", "slurmctld", "slurmd"]
    assert "slurmrestd" in lab_host.missing_packages(accounting=False, rest=True)
    reason = lab_host.why_impossible(accounting=True)
    assert "apt-get install" in reason
    assert {"mariadb-server", "slurm-wlm-mysql-plugin", "slurmdbd"} <= set(reason.split())


@pytest.mark.parametrize(
    ("release", "with_accounting", "without"),
    [
        ((22, 5), "openapi/v0.0.38,openapi/dbv0.0.38", "openapi/v0.0.38"),
        ((23, 2), "", "openapi/v0.0.38"),  # all that it has ends at once, and its v0.0.39 answers nothing
        ((23, 11), "", "openapi/slurmctld"),
        ((26, 5), "", "openapi/slurmctld"),
    ],
)
def test_slurmrestd_loads_what_can_do_without_slurmdbd_where_there_is_none(
    release: tuple[int, int], with_accounting: str, without: str
) -> None:
    assert " ".join(lab_services.rest_plugins(release, accounting=True)[1:]) == with_accounting
    assert " ".join(lab_services.rest_plugins(release, accounting=False)[1:]) == without


@pytest.mark.parametrize(
    ("release", "plugin"), [((23, 2), ""), ((23, 11), "cgroup/v1"), ((24, 5), "disabled"), ((26, 5), "disabled")]
)
def test_no_release_is_given_a_word_for_cgroups_that_it_does_not_know(release: tuple[int, int], plugin: str) -> None:
    """23.11's slurmd ends at "disabled" ("cannot create cgroup context"), and older ones start no such plugin."""
    assert lab_conf.cgroup_plugin(release) == plugin


def test_databases_that_start_at_once_do_not_remove_each_others_temporary_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Sequence[str]] = []
    monkeypatch.setattr(LabServices, "run", lambda self, *argv: started.append(argv))
    monkeypatch.setattr(LabServices, "_start", lambda self, name, argv: started.append(argv))
    monkeypatch.setattr(LabServices, "_await_answer", lambda self, argv, **how: None)
    LabServices(tmp_path).start_database()
    assert [(argv[0], f"--tmpdir={tmp_path}/run" in argv) for argv in started] == [
        *(("mariadb-install-db", True), ("mariadbd", True))
    ]


@pytest.fixture
def own_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another Slurm than the host's, without accounting and slurmrestd."""
    for name in ("sbin/slurmctld", "sbin/slurmd", "bin/sbatch", "bin/scontrol", "lib/slurm/auth_munge.so"):
        file = tmp_path / "slurm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\necho slurm 23.02.8\n")
        file.chmod(0o755)
    monkeypatch.setenv(lab_host.OWN_SLURM, str(tmp_path / "slurm"))
    return tmp_path / "slurm"


@pytest.mark.skipif(not shutil.which("munged", path=lab_host.SEARCH_PATH), reason="munge is not installed")
def test_a_lab_can_be_made_of_another_slurm_and_never_of_two(
    own_slurm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = SlurmLab(tmp_path / "lab", base_port=20_000)
    assert lab.run("slurmctld", "-V") == "slurm 23.02.8\n"
    assert lab.options == {"slurm_conf": str(lab.conf), "bin_dir": f"{own_slurm}/bin"}
    assert lab_host.missing_packages(accounting=False) == []
    assert lab_host.missing_packages(accounting=False, rest=True) == ["slurm-wlm-jwt-plugin", "slurmrestd"]
    assert {"slurmdbd", "slurm-wlm-mysql-plugin"} <= set(lab_host.missing_packages(accounting=True))
    assert str(own_slurm) in lab_host.why_impossible(accounting=False, rest=True)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "lab.json").write_text(lab.spec.to_json())
    main(["env", str(tmp_path / "lab")])
    assert capsys.readouterr().out.startswith(f"export SLURM_CONF={lab.conf} PATH={own_slurm}/sbin:{own_slurm}/bin:")


def test_whoever_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_host, "missing_packages", lambda **parts: [])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "must run as root" in lab_host.why_impossible(accounting=False)


def test_a_host_name_that_leads_off_the_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_host, "missing_packages", lambda **parts: [])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(socket, "gethostname", lambda: "box.example.org")
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
    reason = lab_host.why_impossible(accounting=False)
    assert "10.0.0.7" in reason
    assert '"127.0.0.1 box" at the top of /etc/hosts' in reason


def test_a_folder_that_is_no_lab_is_not_removed(folder: Path) -> None:
    (folder / "thesis.txt").write_text("ten years")
    with pytest.raises(LabError, match="holds no lab"):
        SlurmLab(folder, base_port=20_000).wipe()
    assert (folder / "thesis.txt").exists()


def test_what_is_not_there_is_wiped_without_a_word(folder: Path) -> None:
    SlurmLab(folder / "nothing", base_port=20_000).wipe()


def test_a_command_on_no_lab_says_so(folder: Path) -> None:
    with pytest.raises(LabError, match="holds no lab"):
        main(["status", str(folder)])


def test_a_process_of_ours_is_no_process_of_a_lab() -> None:
    assert os.getpid() not in lab_host.node_processes(Path("/nowhere"))
    assert lab_host.node_processes(Path("/nowhere")) == set()


def up(monkeypatch: pytest.MonkeyPatch, *argv: str) -> LabSpec:
    """What `up` would bring up."""
    labs: list[SlurmLab] = []
    monkeypatch.setattr(SlurmLab, "up", lambda lab: labs.append(lab))
    main(["up", *argv])
    return labs[0].spec


def stored(folder: Path, *, running: bool) -> LabSpec:
    """A lab that was brought up in the folder; a process of this test stands for its controller."""
    spec = LabSpec(base_port=21_000, nodes=3, accounting=True, rest=True, min_job_age_s=20)
    (folder / "run").mkdir()
    (folder / "lab.json").write_text(spec.to_json())
    if running:
        stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        (folder / "run" / "slurmctld.pid").write_text(f"{os.getpid()} {stat[19]}")
    return spec


def test_up_without_options_brings_up_a_small_lab(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert up(monkeypatch, str(folder)) == LabSpec()
    options = ["--nodes", "2", "--port", "22000", "--accounting", "--rest", "--gpus", "8", "--nodes-per-switch", "1"]
    wanted = LabSpec(nodes=2, base_port=22_000, accounting=True, rest=True, gpus_per_node=8, nodes_per_switch=1)
    assert up(monkeypatch, str(folder), *options) == wanted


@pytest.mark.parametrize("options", [[], ["--nodes", "3"], ["--accounting", "--rest", "--port", "21000"]])
def test_up_leaves_a_lab_that_runs_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = stored(folder, running=True)
    assert up(monkeypatch, str(folder), *options) == spec
    assert (
        "is up: --nodes 3, --port 21000, --accounting, --rest, --gpus 0, --nodes-per-switch 0; it stays as it is"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--nodes", "4"], "runs with --nodes 3: nothing was changed"),
        (["--no-accounting", "--port", "17000"], "runs with --port 21000, --accounting: nothing was changed"),
    ],
)
def test_up_refuses_to_make_another_lab_of_one_that_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, option: list[str], said: str
) -> None:
    stored(folder, running=True)
    with pytest.raises(LabError, match=said) as refused:
        up(monkeypatch, str(folder), *option)
    assert "`down`" in str(refused.value)


def test_up_after_down_changes_only_what_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = stored(folder, running=False)
    assert up(monkeypatch, str(folder), "--nodes", "4") == dataclasses.replace(spec, nodes=4)


# --- with Slurm ------------------------------------------------------------------------------------------------------


@pytest.mark.slurm
def test_a_lab_comes_up_stays_up_and_leaves_nothing(lab: SlurmLab) -> None:
    lab.up()
    running = recorded(lab)
    assert set(running) == {"munged", "slurmctld", "slurmd.n1", "slurmd.n2"}
    lab.up()
    assert recorded(lab) == running
    main(["up", str(lab.root)])
    with pytest.raises(LabError, match="nothing was changed"):
        main(["up", str(lab.root), "--nodes", "3"])
    assert recorded(lab) == running
    assert lab.run("sinfo", "-h", "-o", "%D %T").split() == ["2", "idle"]
    assert any("n1 idle" in line for line in lab.status())
    lab.wipe()
    assert not any(process.is_alive() for process in running.values())
    assert not lab.root.exists()


@pytest.mark.slurm
def test_it_listens_on_loopback_only(lab: SlurmLab) -> None:
    lab.up()
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if " 0A " in line]
    addresses = {int(port, 16): address for address, port in (entry.split(":") for entry in listening)}
    ours = {port for port in lab.spec.listening_ports if port in addresses}
    assert len(ours) == 3  # slurmctld and two slurmd
    assert {addresses[port] for port in ours} == {"0100007F"}  # 127.0.0.1, lowest byte first


@pytest.mark.slurm
def test_whoever_was_killed_at_the_start_leaves_a_lab_that_can_be_wiped(lab: SlurmLab) -> None:
    command = [sys.executable, "-m", "recovery.demo.lab", "up", str(lab.root), "--port", str(lab.spec.base_port)]
    with subprocess.Popen(command) as starter:
        assert wait_until(lambda: "slurmctld" in recorded(lab), timeout_s=30, every_s=0.005)
        starter.send_signal(signal.SIGKILL)
    left = recorded(lab)
    assert any(process.is_alive() for process in left.values())
    lab.wipe()
    assert not any(process.is_alive() for process in left.values())


@pytest.mark.slurm
def test_a_power_cut_ends_all_processes_of_that_node_and_no_others(lab: SlurmLab, folder: Path) -> None:
    lab.up()
    script = "#!/bin/sh\nsrun sh -c 'setsid sleep 300 & exec sleep 300'\n"
    lab.submit(script, work_dir=folder, options=["--nodes=2"])
    # on each node: the step's process, the shell's sleep and the one that left its session; on the first the batch too
    assert wait_until(lambda: len(lab_host.node_processes(lab.root, "n2")) >= 3, timeout_s=20)
    lab.crash_node("n2")
    assert lab_host.node_processes(lab.root, "n2") == set()
    assert lab_host.node_processes(lab.root, "n1")
    assert set(recorded(lab)) == {"munged", "slurmctld", "slurmd.n1"}
    lab.start_node("n2")
    assert "slurmd.n2" in recorded(lab)


@pytest.mark.slurm
def test_a_controller_that_was_killed_comes_back_with_its_jobs(lab: SlurmLab, folder: Path) -> None:
    lab.up()
    job_id = lab.submit("#!/bin/sh\nsleep 300\n", work_dir=folder)
    assert wait_until(lambda: lab.run("squeue", "-h", "-o", "%T").strip() == "RUNNING", timeout_s=20)
    # slurmctld saves its state some seconds late, and one that is killed before has forgotten that the job was started
    changed, state = time.time(), lab.root / "state" / "job_state"
    lab.run("scontrol", "update", f"JobId={job_id}", "Comment=changed")
    assert wait_until(lambda: state.exists() and state.stat().st_mtime > changed, timeout_s=20)
    lab.kill_controller()
    with pytest.raises(LabError, match="squeue"):
        lab.run("squeue")
    lab.start_controller()
    assert lab.run("squeue", "-h", "-o", "%A %T").split() == [job_id, "RUNNING"]


@pytest.mark.slurm
def test_other_users_submit_too(lab: SlurmLab, folder: Path) -> None:
    lab.up()
    work = folder / "work"
    work.mkdir()
    work.chmod(0o777)
    lab.submit("#!/bin/sh\nid -un >who\n", work_dir=work, user="nobody")
    assert wait_until(lambda: (work / "who").exists() and (work / "who").read_text() == "nobody\n", timeout_s=20)


@pytest.mark.slurm
def test_ports_that_others_use_are_named(lab: SlurmLab) -> None:
    with socket.create_server(("127.0.0.1", lab.spec.base_port)), pytest.raises(LabError, match="another base port"):
        lab.up()


@pytest.mark.slurm
def test_a_lab_of_another_size_replaces_the_one_that_runs(lab: SlurmLab) -> None:
    lab.up()
    bigger = SlurmLab(lab.root, base_port=lab.spec.base_port, nodes=3)
    bigger.up()
    assert lab.run("sinfo", "-h", "-o", "%D").strip() == "3"
    assert SlurmLab.existing(lab.root).spec == bigger.spec


@pytest.mark.slurm
@pytest.mark.accounting
def test_accounting_that_was_killed_comes_back(folder: Path) -> None:
    lab = SlurmLab(folder / "lab", base_port=lab_host.free_base_port(), nodes=1, accounting=True)
    try:
        lab.up()
        lab.kill_accounting()
        with pytest.raises(LabError, match="sacct"):
            lab.run("sacct")
        lab.start_accounting()
        lab.run("sacct")
    finally:
        lab.wipe()
