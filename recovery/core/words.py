"""How the values of recovery/core/types.py look and read everywhere: pages, charts, API and docs share these tables.

The states of incidents have theirs in lifecycle.py. `tone` names a colour token of the style sheet.
"""

from __future__ import annotations

from recovery.core.detectors.alarm import AlarmKind
from recovery.core.lifecycle import ActionState, StateWords
from recovery.core.opinion import ProviderMode
from recovery.core.types import (
    ActionKind,
    CheckpointState,
    DecisionKind,
    Exclude,
    FailureClass,
    FindingKind,
    JobState,
    Mode,
    NodeState,
    Outcome,
    Phase,
    Rejection,
    Restart,
    Role,
)
from recovery.core.verify.record import CheckState

W = StateWords

JOB_WORDS: dict[JobState, StateWords] = {
    JobState.PENDING: W("Queued", "◌", "muted", "It waits for nodes."),
    JobState.RUNNING: W("Running", "▶", "ok", "The scheduler runs it; what it does is the phase."),
    JobState.COMPLETING: W("Ending", "◐", "info", "Its processes are being removed; its nodes are not free yet."),
    JobState.SUSPENDED: W("Suspended", "■", "warning", "The scheduler has stopped its processes for now."),
    JobState.COMPLETED: W("Completed", "✓", "muted", "It ended with exit code 0."),
    JobState.FAILED: W("Failed", "✕", "critical", "It ended with an error."),
    JobState.CANCELLED: W("Cancelled", "⊘", "muted", "A person or a tool cancelled it: it is left alone."),
    JobState.TIMEOUT: W("Time limit", "✕", "warning", "It reached its time limit."),
    JobState.NODE_FAIL: W("Node failure", "✕", "critical", "One of its nodes was lost."),
    JobState.PREEMPTED: W("Preempted", "◐", "warning", "A more important job took its nodes."),
    JobState.OUT_OF_MEMORY: W("Out of memory", "✕", "critical", "It used more host memory than it was given."),
    JobState.BOOT_FAIL: W("Boot failure", "✕", "critical", "Its nodes did not boot."),
    JobState.DEADLINE: W("Deadline", "✕", "warning", "It could no longer end before its deadline."),
    JobState.REQUEUED: W("Requeued", "◐", "info", "This attempt ended because the job was put back into the queue."),
    JobState.REVOKED: W("Elsewhere", "↗", "muted", "Another cluster of the federation has the job; here it never ran."),
    JobState.UNKNOWN: W("Unknown", "?", "warning", "The scheduler gave no answer that can be named."),
}

PHASE_WORDS: dict[Phase, StateWords] = {
    Phase.QUEUED: W("Queued", "◌", "muted", "It waits for nodes."),
    Phase.STARTING: W("Starting", "◐", "info", "The scheduler runs it; nothing was read from it yet."),
    Phase.FIRST_STEP: W("First step", "◐", "info", "It spoke, but no step is reported yet: compilation and warm-up."),
    Phase.TRAINING: W("Training", "▶", "ok", "It reports steps."),
    Phase.SAVING: W("Saving", "▼", "accent", "It writes a checkpoint."),
    Phase.EVALUATING: W("Evaluating", "◆", "info", "It runs an evaluation."),
    Phase.FINISHING: W("Finishing", "◐", "info", "It said that it is done; its processes still end."),
    Phase.UNKNOWN: W("Unknown", "?", "warning", "Nothing that was read tells what it does."),
}

NODE_WORDS: dict[NodeState, StateWords] = {
    NodeState.UP: W("Up", "●", "ok", "It can run jobs."),
    NodeState.DRAINING: W("Draining", "◐", "warning", "It takes no new job and still runs some."),
    NodeState.DRAINED: W("Drained", "■", "warning", "Taken out of service; we never resume what somebody drained."),
    NodeState.DOWN: W("Down", "✕", "critical", "It is down or does not respond."),
    NodeState.UNKNOWN: W("Unknown", "?", "warning", "The scheduler's word on it can't be named."),
}

CHECKPOINT_WORDS: dict[CheckpointState, StateWords] = {
    CheckpointState.ANNOUNCED: W(
        "Announced", "△", "info", "The log or a folder says so; it is not proved on disk yet."
    ),
    CheckpointState.COMPLETE: W("Complete", "▲", "ok", "Proved on disk: it can be restored."),
    CheckpointState.TORN: W("Torn", "✕", "critical", "Parts of it are missing or empty: it can't be restored."),
    CheckpointState.MISSING: W("Missing", "⊘", "warning", "It was seen and is gone."),
    CheckpointState.UNKNOWN: W("Unknown", "?", "warning", "Its folder can't be read."),
}

# A checkpoint that counts as complete by the trainer's word alone: its folder could not be read.
BY_WORD_KEY = "by_word"
CHECKPOINT_SHOWN: dict[str, StateWords] = {
    **{state.value: found for state, found in CHECKPOINT_WORDS.items()},
    BY_WORD_KEY: W(
        "By the trainer's word", "△", "ok", "The trainer says that it is durable; its folder can't be read to prove it."
    ),
}

CHECK_WORDS: dict[CheckState, StateWords] = {
    CheckState.NOT_YET: W("Not yet", "○", "muted", "Another thing must be seen first."),
    CheckState.WAITING: W("Waiting", "◌", "accent", "It was not seen yet, and is not late."),
    CheckState.AS_EXPECTED: W("As expected", "●", "ok", "It was seen as it was expected."),
    CheckState.NOT_AS_EXPECTED: W("Not as expected", "▲", "critical", "Something else was seen."),
    CheckState.OVERDUE: W("Overdue", "▲", "critical", "It was not seen by its deadline; it is still looked for."),
}

MODE_WORDS: dict[Mode, StateWords] = {
    Mode.OBSERVE: W("Observe", "○", "muted", "We say what we would do, and do nothing."),
    Mode.APPROVE: W("Approve", "◆", "info", "A person approves each action."),
    Mode.AUTO: W("Auto", "▶", "accent", "We act at once, within the limits."),
}

# The state of automation as the top bar shows it: the furthest that any rule of the policy may go.
AUTOMATION_WORDS: dict[str, StateWords] = {
    "observing": W("Observing", "○", "muted", "Nothing is done to any job; the policy only observes."),
    "asking": W("Asking", "◆", "info", "Every action is approved by a person."),
    "automatic": W("Automatic", "▶", "accent", "Some failure classes are acted on without a person."),
    "paused": W("Paused", "■", "warning", "A person stopped automation: every action is asked for."),
}

# How fresh our picture of a cluster is.
PICTURE_WORDS: dict[str, StateWords] = {
    "live": W("Live", "●", "ok", "The last look at the scheduler was good and is recent."),
    "stale": W("Stale", "◐", "warning", "The last good look is too old to act on; what is shown was seen then."),
    "error": W("No answer", "✕", "critical", "The last look failed; what is shown was seen before."),
    "never": W("Not seen yet", "○", "muted", "The scheduler was not looked at yet."),
    "off": W("Switched off", "–", "muted", "This cluster is not looked at."),
}

# What the doctor says of one thing (recovery/doctor/results.py: State).
PROVIDER_WORDS: dict[ProviderMode, StateWords] = {
    ProviderMode.OFF: W("Built-in rules", "●", "muted", "Verdicts rest on the built-in rules; no service is set up."),
    ProviderMode.WAITING: W("Built-in rules", "◌", "info", "A diagnostic service is set up and was not asked yet."),
    ProviderMode.GOOD: W("Built-in rules, second opinion", "●", "ok", "A diagnostic service answers beside our rules."),
    ProviderMode.DEGRADED: W(
        "Degraded: built-in rules only", "!", "warning", "The diagnostic service that is set up gives no answers."
    ),
}

EXAMINED_WORDS: dict[str, StateWords] = {
    "good": W("Good", "●", "ok", "It was looked at, and works."),
    "attention": W("Look at this", "▲", "warning", "Something can't be seen or done here; the rest works."),
    "broken": W("Broken", "✕", "critical", "It does not work."),
    "not_tried": W("Not tried", "○", "muted", "A try would change something, or there was nothing to try it on."),
}

OUTCOME_WORDS: dict[Outcome, StateWords] = {
    Outcome.RECOVERED: W("Recovered", "✓", "ok", "Restored at the expected step, and the next checkpoint is complete."),
    Outcome.RESTORED_OLDER: W(
        "Restored older", "▲", "warning", "It runs again, from an older checkpoint than expected."
    ),
    Outcome.FROM_SCRATCH: W("From scratch", "▲", "critical", "It runs again from the first step: its work was lost."),
    Outcome.NO_PROGRESS: W("No progress", "✕", "critical", "It was restarted, and no training was seen since."),
    Outcome.SAME_FAILURE: W(
        "Same failure again", "✕", "critical", "It was restored, and the same failure came again at the same step."
    ),
    Outcome.NO_CHECKPOINT: W(
        "No next checkpoint", "▲", "critical", "It trains again, but its next checkpoint does not come."
    ),
    Outcome.GAVE_UP: W("Gave up", "✕", "critical", "It was not brought back."),
    Outcome.STOPPED_ON_PURPOSE: W("Stopped on purpose", "⊘", "muted", "A person ended the job, or it was finished."),
    Outcome.UNDONE: W("Undone", "↺", "muted", "What an earlier case did was undone."),
    Outcome.FALSE_ALARM: W("False alarm", "–", "muted", "There was no fault."),
}

ACTION_KIND_WORDS: dict[ActionKind, StateWords] = {
    ActionKind.REQUEUE: W("Requeue", "↻", "accent", "Put the job back into the queue."),
    ActionKind.REQUEUE_EXCLUDING: W("Requeue without nodes", "↻", "accent", "Requeue it, and keep it off these nodes."),
    ActionKind.RELEASE: W("Release", "▶", "accent", "End the hold that Slurm itself, or we, put on the job."),
    ActionKind.HOLD: W("Hold", "■", "warning", "Keep the job from starting again."),
    ActionKind.CANCEL: W("Cancel", "✕", "critical", "End the job for good."),
    ActionKind.RESUBMIT: W("Resubmit", "↻", "accent", "Cancel it and submit its stored batch script again."),
    ActionKind.EXTEND_TIME_LIMIT: W("Extend the time limit", "◷", "accent", "Give the job more time."),
    ActionKind.DRAIN: W("Drain a node", "■", "warning", "Take a node of the job out of service."),
    ActionKind.RESUME: W("Resume a node", "▶", "ok", "Give back a node that we drained."),
    ActionKind.RESTORE_OLDER: W("Restore older", "▼", "warning", "Point the trainer at an older complete checkpoint."),
    ActionKind.NOTHING: W("Nothing", "–", "muted", "Leave the job alone, and record why."),
}

ACTION_STATE_WORDS: dict[ActionState, StateWords] = {
    ActionState.INTENDED: W("Intended", "○", "info", "Written down; the scheduler was not called yet."),
    ActionState.CALLED: W("Called", "◌", "accent", "The scheduler was called; what it did is being observed."),
    ActionState.CONVERGED: W("Converged", "●", "ok", "The scheduler shows what was intended."),
    ActionState.REFUSED: W("Refused", "⊘", "warning", "The facts changed before it was carried out: nothing was done."),
    ActionState.FAILED: W("Failed", "✕", "critical", "It was not carried out, or its effect was not seen in time."),
}

DECISION_WORDS: dict[DecisionKind, StateWords] = {
    DecisionKind.APPROVE: W("Approved", "●", "ok", "A person approved the recommendation."),
    DecisionKind.REJECT: W("Rejected", "⊘", "warning", "A person rejected the recommendation."),
    DecisionKind.AMEND: W("Amended", "◆", "info", "A person proposed something else in its place."),
    DecisionKind.AUTO: W("Decided by policy", "▶", "accent", "The policy allowed it without a person."),
    DecisionKind.EXPIRE: W("Expired", "–", "muted", "Nobody decided in time."),
}

# The short list that a rejection chooses from.
REJECTION_LABELS: dict[Rejection, str] = {
    Rejection.WRONG_CLASS: "The cause is another one",
    Rejection.WRONG_NODE: "It is another node",
    Rejection.WRONG_ACTION: "Something else should be done",
    Rejection.WRONG_CHECKPOINT: "Another checkpoint should be restored",
    Rejection.USER_IS_ON_IT: "Its user is on it",
    Rejection.NOT_NOW: "Not now",
    Rejection.OTHER: "Something else, as follows",
}

ROLE_WORDS: dict[Role, StateWords] = {
    Role.CAUSE: W("Cause", "●", "critical", "The earliest line that explains the failure."),
    Role.CONSEQUENCE: W("Consequence", "◐", "warning", "It follows from the cause."),
    Role.CONFIRMATION: W("Confirmation", "○", "info", "It agrees with the cause."),
}

FINDING_WORDS: dict[FindingKind, StateWords] = {
    FindingKind.CRASH: W("Crash", "✕", "critical", "The attempt ended with a fault."),
    FindingKind.HANG: W("Hang", "■", "critical", "It is allocated and makes no progress."),
    FindingKind.SLOWDOWN: W("Slow", "◐", "warning", "It makes progress, clearly slower than before."),
    FindingKind.UNDOING: W("Undoing", "↺", "muted", "No fault: a person undoes what was done in an earlier case."),
    FindingKind.LIMIT_NEAR: W("Limit near", "◷", "warning", "Its next checkpoint is due after its time limit."),
}

ALARM_WORDS: dict[AlarmKind, StateWords] = {
    AlarmKind.NUMERICS: W("Numerics", "∿", "critical", "The loss is no number, diverges, or is no longer printed."),
    AlarmKind.NOT_STARTING: W("Not starting", "◌", "warning", "Waiting alone will not start it."),
    AlarmKind.UNSAVED: W("Unsaved", "△", "warning", "It trains, and its checkpoints do not come."),
    AlarmKind.NOT_RESTORED: W("Not restored", "▲", "critical", "It did not continue from the newest checkpoint."),
    AlarmKind.CRASH_LOOP: W("Crash loop", "↻", "critical", "It ends at one step again and again."),
    AlarmKind.STRAGGLER: W("Straggler", "◐", "warning", "A few ranks are slow, and all others wait for them."),
    AlarmKind.SHARED_STALL: W("Shared stall", "■", "warning", "It stands still with other jobs: storage or network."),
}

# A noun, and what belongs to it.
FAILURE_LABELS: dict[FailureClass, tuple[str, str]] = {
    FailureClass.GPU_HARDWARE: ("GPU hardware", "uncorrectable memory error, a GPU that fell off the bus"),
    FailureClass.NODE_FAULT: ("Node fault", "a node lost, rebooted or not responding"),
    FailureClass.NETWORK_FABRIC: ("Network fabric", "links down, retries exceeded between nodes"),
    FailureClass.STORAGE_TRANSIENT: ("Storage, passing", "stale handles and I/O errors that go away"),
    FailureClass.STORAGE_FULL: ("Storage full", "no space or quota left"),
    FailureClass.HOST_OOM: ("Host out of memory", "the kernel killed a process for memory"),
    FailureClass.GPU_OOM: ("GPU out of memory", "the model does not fit as configured"),
    FailureClass.USER_CODE: ("User code", "a traceback or crash of the training code"),
    FailureClass.NUMERICS: ("Numerics", "the loss is NaN or infinite"),
    FailureClass.LAUNCH_CONFIG: ("Launch configuration", "it could never have started as submitted"),
    FailureClass.RENDEZVOUS: ("Rendezvous", "ranks never found each other"),
    FailureClass.WALLTIME: ("Time limit", "the job reached its time limit"),
    FailureClass.PREEMPTION: ("Preemption", "a more important job took the nodes"),
    FailureClass.EXTERNAL_CANCEL: ("Cancelled", "a person or a tool cancelled the job"),
    FailureClass.SCHEDULER_LAUNCH: ("Scheduler launch", "Slurm could not launch it"),
    FailureClass.CHECKPOINT_INCOMPLETE: ("Incomplete checkpoint", "it dies on a torn or missing checkpoint"),
    FailureClass.NOT_RESUMED: ("Not resumed", "it runs again, but not from its checkpoint"),
    FailureClass.HANG_COLLECTIVE: ("Hang in a collective", "ranks wait for each other and time out"),
    FailureClass.HANG_SILENT: ("Silent hang", "stopped without a word"),
    FailureClass.STRAGGLER: ("Straggler", "one rank slows all others"),
    FailureClass.COMPLETED: ("Completed", "the run finished"),
    FailureClass.NOT_A_FAILURE: ("Not a failure", "a handled error, a pause, or a requeue under way"),
    FailureClass.UNKNOWN: ("Unknown", "the evidence explains nothing"),
}

RESTART_LABELS: dict[Restart, str] = {
    Restart.YES: "Restart",
    Restart.ONCE: "Restart once; a second failure alike stops",
    Restart.AFTER_CHANGE: "Restart only after a person changed something",
    Restart.NO: "Do not restart",
}

EXCLUDE_LABELS: dict[Exclude, str] = {
    Exclude.NONE: "exclude no node",
    Exclude.NODES: "exclude the named nodes",
    Exclude.IF_REPEATED: "exclude if it repeats",
    Exclude.HOLD: "exclude nobody, wait",
}

CHANNEL_WORDS: dict[str, StateWords] = {
    "good": W("Delivers", "✓", "ok", "The last message arrived."),
    "untried": W("Not tried", "○", "muted", "No message was sent by it yet: send a test."),
    "failing": W("Fails", "◐", "warning", "The last message did not arrive; it is tried again."),
    "dead": W("Dead", "✕", "critical", "Nothing has arrived for 10 minutes or more: whom it tells is told nothing."),
    "off": W("Off", "■", "muted", "Nothing is sent by it."),
}

DELIVERY_WORDS: dict[str, StateWords] = {
    "waiting": W("Waiting", "◌", "info", "It is sent next."),
    "retrying": W("Tried again", "◐", "warning", "It did not arrive yet."),
    "arrived": W("Arrived", "✓", "ok", "The receiver took it."),
    "given_up": W("Given up", "✕", "critical", "It did not arrive and is not tried again by itself."),
    "dropped": W("Not sent", "–", "muted", "It was not sent: nobody needed it any more."),
}
