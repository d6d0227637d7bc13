"""What the GPUs' own readings add to a finding that rests on something else. They never make one by themselves."""

from __future__ import annotations

from datetime import timedelta

from recovery.core.speech import duration
from recovery.core.types import AttemptFacts, Evidence, GpuFacts, Role

FRESH = timedelta(minutes=5)  # older readings tell nothing of now
IDLE_PERCENT = 5.0
# A GPU that only waits in a collective shows full utilisation (its kernel spins), but draws far less than in training.
LITTLE_POWER = 0.5
WORKS_POWER = 0.8  # of the usual: so much is drawn by nothing but work. Utilisation tells no work from waiting


def idle_gpus(facts: AttemptFacts) -> tuple[float, tuple[Evidence, ...]]:
    """How much surer a hang is by what its GPUs do (0 where they say nothing), with the evidence for people."""
    gpu = _fresh(facts)
    if gpu is None:
        return 0.0, ()
    age = duration((facts.now - gpu.at).total_seconds())
    if gpu.utilisation is not None and gpu.utilisation < IDLE_PERCENT:
        text = f"Its GPUs were idle {age} ago: {gpu.utilisation:.0f} % on the mean of {gpu.nodes} nodes."
    elif gpu.power_w is not None and gpu.usual_power_w and gpu.power_w < LITTLE_POWER * gpu.usual_power_w:
        text = f"Its GPUs drew {gpu.power_w:.0f} W {age} ago, and usually {gpu.usual_power_w:.0f} W: they only wait."
    else:
        return 0.0, ()
    evidence = Evidence(text=text, source="prometheus", role=Role.CONFIRMATION, rule="gpu.idle", at=gpu.at)
    return 0.1, (evidence,)


def only_wait(facts: AttemptFacts) -> bool:
    """Whether no node's GPUs did anything but wait in the last ten minutes: an evaluation may pause for two."""
    gpu = _fresh(facts)
    if gpu is None:
        return False
    if gpu.most_utilisation is not None and gpu.most_utilisation < IDLE_PERCENT:
        return True
    return gpu.most_power_w is not None and bool(
        gpu.usual_power_w and gpu.most_power_w < LITTLE_POWER * gpu.usual_power_w
    )


def busy_gpus(facts: AttemptFacts) -> Evidence | None:
    """That the GPUs compute, by the power that they draw; None where nothing says so."""
    gpu = _fresh(facts)
    if gpu is None or gpu.power_w is None or not gpu.usual_power_w:
        return None
    if gpu.power_w < WORKS_POWER * gpu.usual_power_w:
        return None
    age = duration((facts.now - gpu.at).total_seconds())
    text = f"Its GPUs drew {gpu.power_w:.0f} W {age} ago, and usually {gpu.usual_power_w:.0f} W: they compute."
    return Evidence(text=text, source="prometheus", role=Role.CONFIRMATION, rule="gpu.busy", at=gpu.at)


def _fresh(facts: AttemptFacts) -> GpuFacts | None:
    return facts.gpu if facts.gpu is not None and facts.now - facts.gpu.at <= FRESH else None
