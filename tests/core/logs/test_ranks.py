from __future__ import annotations

import pytest

from recovery.core.logs import LogParser
from recovery.core.logs.cut import LogBytes
from recovery.core.logs.lines import clean
from recovery.core.logs.ranks import MAX_RANKS, RankMap
from recovery.core.types import Signal, SignalKind
from tests.core.logs.lines import log_line, megatron, signals_of

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def failure(*texts: str, nodes: tuple[str, ...] = ()) -> Signal:
    """The last failure that `texts` report."""
    signals = signals_of(*texts, parser=LogParser(nodes=nodes))
    return [s for s in signals if s.kind is SignalKind.FAILURE][-1]


@pytest.mark.parametrize(
    ("said", "spoke"),
    [
        ("[rank3]: host n2 pid 4711", "[rank3]: "),
        ("3: host n2 pid 4711", "3: "),
        ("3: host: n2 pid: 4711", "[rank3]:"),
        ("SLURM_PROCID=3 SLURM_LOCALID=1 SLURMD_NODENAME=n2", "3: "),
        ("host=n2 SLURM_NODEID: 1 SLURM_PROCID: 3", "[rank3]: "),
        ("n2:4711:4800 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 16 cudaDev 0", "3: "),
    ],
)
def test_a_failing_rank_has_the_node_that_it_named_before(said: str, spoke: str) -> None:
    signal = failure(said, spoke + OOM)
    assert (signal.rank, signal.node) == (3, "n2")


def test_srun_labels_of_a_hostname_command_count_for_known_nodes_only() -> None:
    assert failure("3: n2", "4: done", f"3: {OOM}", nodes=("n1", "n2")).node == "n2"
    assert failure("3: n2", f"3: {OOM}").node == ""
    assert failure("4: done", f"4: {OOM}", nodes=("n1", "n2")).node == ""


def test_a_node_that_is_not_the_attempts_own_is_not_believed() -> None:
    assert failure("[rank3]: host n9 pid 1", f"[rank3]: {OOM}", nodes=("n1", "n2")).node == ""


def test_a_nodes_domain_does_not_matter() -> None:
    assert failure("[rank3]: host N2.cluster.example pid 1", f"[rank3]: {OOM}", nodes=("n1", "n2")).node == "n2"


def test_a_rank_without_a_known_place_has_no_node() -> None:
    signal = failure(f"[rank3]: {OOM}")
    assert (signal.rank, signal.node) == (3, "")


def test_a_line_of_nccl_names_its_own_node() -> None:
    ranks = RankMap({}, nodes=("n2",))
    assert ranks.read(clean("n2:4711:4800 [0] NCCL WARN NET/IB : Got completion with error 12")).node == "n2"
    assert ranks.read(clean("n9:4711:4800 [0] NCCL WARN NET/IB : Got completion with error 12")).node == ""


def test_a_rank_that_moves_is_followed() -> None:
    assert failure("[rank3]: host n1 pid 1", "[rank3]: host n2 pid 2", f"[rank3]: {OOM}").node == "n2"


TORCHELASTIC = [
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-02-03_04:05:06",
    "  host      : n2.cluster.example",
    "  rank      : 5 (local_rank: 1)",
    "  exitcode  : -9 (pid: 1233)",
    "  error_file: <N/A>",
]


def test_torchelastics_report_maps_its_rank_to_its_host() -> None:
    signal = failure(*TORCHELASTIC, "=====", f"[rank5]: {OOM}", nodes=("n1", "n2"))
    assert signal.node == "n2"


def test_lines_inside_torchelastics_report_belong_to_its_rank() -> None:
    signals = signals_of(*TORCHELASTIC, parser=LogParser(nodes=("n1", "n2")))
    inside = [s for s in signals if s.kind is SignalKind.FAILURE and s.line == 6]
    assert inside, "the catalogue knows the exit code line of torchelastic"
    assert {(s.rank, s.node) for s in inside} == {(5, "n2")}


def test_the_end_of_the_report_ends_its_rank() -> None:
    signals = signals_of(*TORCHELASTIC, "------", OOM)
    last = [s for s in signals if s.kind is SignalKind.FAILURE][-1]
    assert (last.rank, last.node) == (None, "")


def test_half_a_report_says_nothing() -> None:
    assert failure("  rank      : 5 (local_rank: 1)", OOM).rank is None


def test_the_memory_of_ranks_is_bounded() -> None:
    parser = LogParser()
    signals_of(*(f"[rank{n}]: host n{n} pid 1" for n in range(MAX_RANKS + 100)), parser=parser)
    assert len(parser.memory["ranks"]["map"]) == MAX_RANKS


@pytest.mark.parametrize(
    "line",
    [
        "n1:4711:4800 [0] NCCL INFO comm 0x1 rank 3 nranks 16 cudaDev 0 busId 1b000 - Init START",
        "[2026-12-28 05:01:38,135] [INFO] [launch.py:180:main] dist_world_size=16",
        "Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16",
        "3: Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16",
    ],
)
def test_how_many_ranks_there_are_is_kept(line: str) -> None:
    parser = LogParser()
    smaller = "n1:4711:4800 [0] NCCL INFO comm 0x2 rank 1 nranks 4 cudaDev 0 busId 1b000 - Init START"
    parser.feed_bytes(LogBytes(data=f"{line}\n{smaller}\n".encode(), file="/logs/a"))
    assert parser.memory["ranks"]["world"] == 16


def _in_file(text: str, *, rank: int | None = None, node: str = "") -> list[Signal]:
    parser = LogParser(nodes=("n1", "n2"))
    parser.feed(log_line("[rank3]: host n2 pid 4711"))
    return parser.feed_bytes(LogBytes(data=text.encode(), file="/logs/a", rank=rank, node=node))


def test_the_name_of_a_file_tells_the_rank_and_node_where_its_lines_do_not() -> None:
    (boom,) = _in_file("RuntimeError: CUDA error: an illegal memory access was encountered\n", rank=3)
    assert (boom.rank, boom.node) == (3, "n2")
    (boom,) = _in_file("RuntimeError: CUDA error: an illegal memory access was encountered\n", node="n1")
    assert (boom.rank, boom.node) == (None, "n1")
    (boom,) = _in_file("[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered\n", rank=3)
    assert boom.rank == 1


def test_a_file_with_the_name_of_another_jobs_node_is_not_believed() -> None:
    (boom,) = _in_file("RuntimeError: CUDA error: an illegal memory access was encountered\n", node="n7")
    assert boom.node == ""


def test_a_line_that_speaks_for_all_ranks_does_so_in_a_ranks_own_file() -> None:
    (progress,) = _in_file(megatron(5) + "\n", rank=7)
    assert progress.rank is None
