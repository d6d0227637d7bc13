"""The thresholds of the alarms, all in one place, each with where its value comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class AlarmLimits:
    """When something is worth a person's attention. Seconds, unless said otherwise.

    Sources: [fleet] chosen on the simulated fleet (`python -m benchmarks detection`; docs/detectors.md shows the
    curves); [rule] follows from another rule of the product, which is named; [judgement] ours, until sites know better.
    """

    # numerics
    loss_known: int = 20  # earlier reports with a loss: fewer are no habit [fleet]
    loss_least: int = 5  # … but these do where the row without one is twice as long as loss_known [judgement]
    loss_gone: int = 10  # so many reports in a row without a number: a scale that is being found takes some [fleet]
    loss_window: int = 20  # reports that must all stand above the level before: a spike decays within them [fleet]
    loss_factor: float = 1.5  # … by so much: another mixture of data moves the loss by less [fleet]
    loss_spread: float = 6.0  # … and by so many median deviations: a noisy loss is no divergence [fleet]
    skipped_steps: int = 10  # steps skipped for overflow since the last ten reports: single ones are normal [judgement]

    # not starting
    refused_s: float = 600.0  # so long Slurm must have said that it can't start as it is asked for [judgement]
    rendezvous_s: float = 300.0  # without a step after ranks said that they did not find each other [judgement]

    # unsaved
    save_late: float = 2.0  # times the run's own rhythm: one save may have been skipped [fleet]
    save_grace_s: float = 900.0  # … and at least so late: saves themselves take time [rule: RECOVERY_HANG_SAVING_S]
    never_saved_s: float = 6 * 3600.0  # of training without any checkpoint, its folder being known [judgement]

    # crash loop
    loop_ends: int = 2  # ends alike in a row [rule: two failures at one step stop automation (core/budget.py)]

    # stragglers
    rank_factor: float = 1.3  # times the median of all ranks, in its own reports [fleet]
    rank_reports: int = 5  # in each of its last so many reports [fleet]
    rank_least: int = 4  # ranks that report: of fewer no median speaks [judgement]
    rank_share: float = 0.25  # more slow ranks than this part are no stragglers, but two kinds of ranks [judgement]
