"""A plain e-mail, by the server that the settings name."""

from __future__ import annotations

import smtplib
from datetime import datetime

from django.core.mail import EmailMessage, get_connection

from recovery.core.notices import Message
from recovery.notify.base import SHOWN_CHARS, TIMEOUT_S, Address, NotSent, link

PERMANENT = 500  # SMTP's codes from here on say: never


def send(message: Message, address: Address, *, now: datetime) -> None:
    """Raises NotSent."""
    to = [each.strip() for each in address.target.split(",") if each.strip()]
    mail = EmailMessage(subject=subject_of(message), body=body_of(message, address), to=to)
    mail.extra_headers["Auto-Submitted"] = "auto-generated"  # RFC 3834: no machine answers it
    try:
        mail.connection = get_connection(timeout=TIMEOUT_S)
        mail.send()
    except smtplib.SMTPRecipientsRefused as error:
        for_good = all(code >= PERMANENT for code, _ in error.recipients.values())  # others may be told to come later
        raise NotSent(f"The mail server takes none of {address.target}.", for_good=for_good) from error
    except (smtplib.SMTPException, OSError) as error:
        raise NotSent(
            f"The mail server did not take it: {str(error)[:SHOWN_CHARS] or type(error).__name__}."
        ) from error


def subject_of(message: Message) -> str:
    """One line, whatever a job's name holds."""
    where = f" [{message.cluster}]" if message.cluster else ""
    first = message.lines[0] if message.lines else ""
    return " ".join(f"{message.title}{where}: {first}".split())[:200]


def body_of(message: Message, address: Address) -> str:
    return "\n".join(
        [*message.lines, "", link(message, address), "", "Recovery Desk tells; it never asks for an answer here."]
    )
