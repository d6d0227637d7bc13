"""What a job's comment asks of us (DESIGN section 6).

The comment is one JSON object that several tools share: we read our own keys, leave the others alone, and never
write it. A job can ask for less autonomy than the policy gives, never for more; that is the policy's to hold.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recovery.core.logs import KNOWN_FORMATS
from recovery.core.types import Mode

MAX_CHARS = 10_000  # of a comment that are read; longer ones are refused
MAX_RESTARTS = 1000
MAX_RUN_CHARS = 200
MAX_PATH_CHARS = 1000

OUR_KEY = "recovery"
APS_KEY = "APS"  # NVIDIA Mission Control's job recovery; its users need not rewrite their scripts

# The modes that Mission Control documents. We requeue as the first asks. The second leaves the restart to a chain of
# jobs that depend on each other, so we must not add one of our own.
_APS_MODES = {"requeue": Mode.AUTO, "singleton_dependency": Mode.OBSERVE}

MAX_LOGS = 8
MAX_LABELS = 20
MAX_LABEL_CHARS = 100  # of a label's name, and of its text
_PATHS = ("checkpoint_dir", "metrics", "nvrx_iteration_file", "nvrx_cycle_dir")
_KEYS = ("mode", "max_restarts", "run", "checkpoint_dir", "log", "format", "labels", *_PATHS[1:])
_QUOTING_HINT = "Put the whole comment into single quotes, the keys and texts into double quotes."


@dataclass(frozen=True, kw_only=True, slots=True)
class CommentOptions:
    """What the comment asks for; None and "" where it asks for nothing.

    `error` is "" or sentences for the job's owner. A broken comment asks for nothing, and `error` begins with that. A
    key that we don't know is said in `error` and otherwise passed over.
    """

    mode: Mode | None = None
    max_restarts: int | None = None
    run: str = ""
    checkpoint_dir: str = ""
    log: tuple[str, ...] = ()  # patterns of names (recovery/core/log_patterns.py)
    format: str = ""  # whose progress lines are believed; "": anybody's
    labels: Mapping[str, str] = field(default_factory=dict)  # a policy's rules can match them, to lower only
    metrics: str = ""
    nvrx_iteration_file: str = ""
    nvrx_cycle_dir: str = ""
    error: str = ""


class _Wrong(ValueError):
    """One value is wrong; the message is the sentence for the owner."""


def parse_comment(text: str) -> CommentOptions:
    """The options in a job's comment. Never raises.

    A comment that isn't JSON is somebody's remark and no error, unless it looks as if it was meant for us.
    """
    try:
        return _parse(text)
    except _Wrong as wrong:
        return CommentOptions(error=f"It counts as absent. {wrong}")


def _parse(text: str) -> CommentOptions:
    stripped = text.strip()
    if not _is_meant_as_json(stripped):
        return CommentOptions()
    if len(stripped) > MAX_CHARS:
        raise _Wrong(f"The comment is longer than {MAX_CHARS} characters and was not read.")
    whole = _load(stripped)
    ours = _section(whole, OUR_KEY)
    aps = _section(whole, APS_KEY)
    return _with_aps(_ours(ours or {}), aps or {})


def _is_meant_as_json(text: str) -> bool:
    return text.startswith("{") or f'"{OUR_KEY}"' in text or f'"{APS_KEY}"' in text


def _load(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise _Wrong(f"The comment is not valid JSON{where}. {_QUOTING_HINT}") from None
    if not isinstance(value, dict):
        raise _Wrong('The comment must be one JSON object, for example {"recovery": {"mode": "auto"}}.')
    return value


def _section(whole: dict[str, Any], key: str) -> dict[str, Any] | None:
    section = whole.get(key)
    if section is not None and not isinstance(section, dict):
        raise _Wrong(f'"{key}" must be an object, for example {{"{key}": {{}}}}, not {_show(section)}.')
    return section


def _ours(section: Mapping[str, Any]) -> CommentOptions:
    unknown = [_unknown(key) for key in section if key not in _KEYS]
    return CommentOptions(
        mode=_mode(section),
        max_restarts=_count(section, "max_restarts", of=OUR_KEY),
        run=_text(section, "run", most=MAX_RUN_CHARS),
        log=_logs(section),
        format=_format(section),
        labels=_labels(section),
        **{key: _path(section, key) for key in _PATHS} | {"metrics": _metrics(section)},
        error=" ".join(unknown[:3]),
    )


def _with_aps(options: CommentOptions, aps: Mapping[str, Any]) -> CommentOptions:
    """What Mission Control's keys ask for, where our own leave it open."""
    asked = aps.get("auto_resume_mode")
    if asked is not None and (not isinstance(asked, str) or asked not in _APS_MODES):
        raise _Wrong(f'"APS": auto_resume_mode must be one of {_listed(_APS_MODES)}, not {_show(asked)}.')
    restarts = _count(aps, "max_requeue_times", of=APS_KEY)
    return replace(
        options,
        mode=options.mode if asked is None or options.mode is not None else _APS_MODES[asked],
        max_restarts=restarts if options.max_restarts is None else options.max_restarts,
    )


def _mode(section: Mapping[str, Any]) -> Mode | None:
    value = section.get("mode")
    if value is None:
        return None
    if not isinstance(value, str) or value not in list(Mode):
        raise _Wrong(f'"recovery": mode must be one of {_listed(Mode)}, not {_show(value)}.')
    return Mode(value)


def _count(section: Mapping[str, Any], key: str, *, of: str) -> int | None:
    value = section.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_RESTARTS:
        raise _Wrong(
            f'"{of}": {key} must be a whole number from 0 to {MAX_RESTARTS}, without quotes, not {_show(value)}.'
        )
    return value


def _text(section: Mapping[str, Any], key: str, *, most: int) -> str:
    value = section.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip() or len(value) > most or not value.isprintable():
        raise _Wrong(f'"recovery": {key} must be a text of 1 to {most} printable characters, not {_show(value)}.')
    return value.strip()


def _path(section: Mapping[str, Any], key: str) -> str:
    """An absolute path without "..": we read it, so what it means must not depend on who reads it from where."""
    value = _text(section, key, most=MAX_PATH_CHARS)
    if not value:
        return ""
    if not value.startswith("/"):
        raise _Wrong(f'"recovery": {key} must be an absolute path that starts with "/", not {_show(value)}.')
    if ".." in value.split("/"):
        raise _Wrong(f'"recovery": {key} must not contain "..": write the path out, not {_show(value)}.')
    return value


def _logs(section: Mapping[str, Any]) -> tuple[str, ...]:
    """One pattern, or a list of them."""
    value = section.get("log")
    if not isinstance(value, list):
        one = _path(section, "log")
        return (one,) if one else ()
    if not value or len(value) > MAX_LOGS:
        raise _Wrong(f'"recovery": log must be a path or a list of 1 to {MAX_LOGS} paths, not {_show(value)}.')
    return tuple(dict.fromkeys(_path({"log": each}, "log") for each in value if each is not None))


def _metrics(section: Mapping[str, Any]) -> str:
    value = _path(section, "metrics")
    if any(char in value.rpartition("/")[0] for char in "*?["):
        raise _Wrong(
            f'"recovery": metrics may have wildcards in the file name only, %x, %j and %u anywhere, not {_show(value)}.'
        )
    return value


def _format(section: Mapping[str, Any]) -> str:
    value = section.get("format")
    if value is None:
        return ""
    if not isinstance(value, str) or value not in KNOWN_FORMATS:
        raise _Wrong(f'"recovery": format must be one of {_listed(KNOWN_FORMATS)}, not {_show(value)}.')
    return value


def _labels(section: Mapping[str, Any]) -> dict[str, str]:
    value = section.get("labels")
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_LABELS:
        raise _Wrong(
            f'"recovery": labels must be an object of at most {MAX_LABELS} texts, for example {{"team": "vision"}}, '
            f"not {_show(value)}."
        )
    return {_label({"a label's name": key}): _label({key: text}) for key, text in value.items()}


def _label(named: Mapping[str, Any]) -> str:
    """The one text in `named`, whose key stands in the sentence where it is wrong."""
    [(key, text)] = named.items()
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_LABEL_CHARS or not text.isprintable():
        raise _Wrong(
            f'"recovery": labels: {_show(key)} must be a text of 1 to {MAX_LABEL_CHARS} printable characters, '
            f"not {_show(text)}."
        )
    return text.strip()


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key[:40], _KEYS, n=1)
    hint = f' Did you mean "{close[0]}"?' if close else f" Known are {_listed(_KEYS)}."
    return f'"recovery": the key {_show(key)} is not known and was passed over.{hint}'


def _listed(words: Iterable[str]) -> str:
    return ", ".join(str(word) for word in words)


def _show(value: object) -> str:
    """A value as its owner wrote it, short enough for a sentence."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = "what is there"
    text = "".join(char if char.isprintable() else "?" for char in text[:41])
    return text if len(text) <= 40 else text[:40] + "…"


_NO_TASK = "4294967294"  # what Slurm fills in for %a where the job is no array task
_SPECIFIER = re.compile(r"%([0-9]{0,2})([A-Za-z%])")


def expand_log_pattern(
    pattern: str, *, job_id: str, name: str, user: str, batch_host: str = "", raw_job_id: str = ""
) -> str:
    """A `log` path with Slurm's file name patterns filled in (sbatch(1), "filename pattern").

    `job_id` may be an array task's ("4711_3"); its own number, which %j means, is `raw_job_id` where that is known. A
    pattern without a value here stays as it stands. Names can't add folders: a slash in them becomes "_".
    """
    main, _, task = job_id.partition("_")
    main = main.partition("+")[0]
    own = raw_job_id or main
    last_digit = task[-1:] if task.isascii() and task.isdigit() else ""
    values = {
        "j": own, "J": own, "A": main, "a": task or _NO_TASK, "b": last_digit, "x": name, "u": user,
        "N": batch_host.partition(".")[0], "n": "0", "t": "0", "s": "batch", "%": "%",
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        value = values.get(found[2], "")
        if not value:
            return found[0]
        width = min(int(found[1] or 0), 10)  # Slurm pads numbers only, to at most 10 digits
        return _as_name(value).zfill(width) if value.isdigit() else _as_name(value)

    return _SPECIFIER.sub(fill, pattern)


def _as_name(value: str) -> str:
    return value.replace("/", "_").replace("\0", "_")
