"""What the GPUs' own readings add to a finding that rests on something else. They never make one by themselves."""

from __future__ import annotations

from datetime import timedelta

from recovery.core.speech import duration
from recovery.core.types import AttemptFacts, Evidence, Role

FRESH = timedelta(minutes=5)  # older readings tell nothing of now
IDLE_PERCENT = 5.0
# A GPU that only waits in a collective shows full utilisation (its kernel spins), but draws far less than in training.
LITTLE_POWER = 0.5


def idle_gpus(facts: AttemptFacts) -> tuple[float, tuple[Evidence, ...]]:
    """How much surer a hang is by what its GPUs do (0 where they say nothing), with the evidence for people."""
    gpu = facts.gpu
    if gpu is None or facts.now - gpu.at > FRESH:
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
