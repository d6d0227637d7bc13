"""A message for Slack's incoming webhooks, and for those that understand the same (Mattermost, Rocket.Chat, …)."""

from __future__ import annotations

import json
from datetime import datetime

from recovery.core.notices import Message
from recovery.notify.base import Address, link
from recovery.notify.post import post

MOST_CHARS = 2900  # of one section; Slack takes 3,000


def send(message: Message, address: Address, *, now: datetime) -> None:
    """Raises NotSent."""
    post(address, json.dumps(payload(message, address), ensure_ascii=False).encode(), headers={})


def payload(message: Message, address: Address) -> dict[str, object]:
    """As blocks for Slack; `text` holds the same for those that show no blocks."""
    title = f"*{escaped(message.title)}*" + (f" · {escaped(message.cluster)}" if message.cluster else "")
    url = link(message, address)
    open_it = f"<{url}|Open in Recovery Desk>" if address.desk else f"In Recovery Desk: {url}"
    lines = "\n".join(escaped(line) for line in message.lines)[:MOST_CHARS] or "-"
    return {
        "text": f"{title}\n{lines}\n{open_it}",
        "blocks": [_section(title), _section(lines), _section(open_it)],
    }


def _section(text: str) -> dict[str, object]:
    """Verbatim: Slack makes no links and no mentions of its own of what looks like one."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def escaped(text: str) -> str:
    """What a job or a person wrote makes no link and calls nobody, neither in Slack's nor in Markdown's way."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("@", "@\u200b").replace("](", "]\u200b(")
