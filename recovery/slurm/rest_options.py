"""The options of a cluster that is reached by slurmrestd, as flat texts, and the client that they describe."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from recovery.slurm.rest import RestClient
from recovery.slurm.rest_auth import ScontrolToken, TokenSource, fixed_token, no_token, token_from_file
from recovery.slurm.rest_http import UNIX, RestHttp, why_no_url

OPTIONS = ("url", "user", "token", "token_file", "ca_file")


def why_not(options: Mapping[str, str]) -> str:
    """One sentence on what is wrong with these options; "" where they describe a slurmrestd."""
    url = options.get("url", "")
    if not url:
        return "A cluster reached by slurmrestd needs the option url: unix:/path/to/socket or https://host:6820."
    wrong = why_no_url(url)
    if wrong:
        return f"The option url won't do: {wrong}."
    if options.get("token") and options.get("token_file"):
        return "Give token or token_file, not both."
    try:
        shlex.split(options.get("prefix", ""))
    except ValueError as error:  # a quote that is not closed
        return f"Option prefix can't be split into words: {error}."
    return ""


def rest_client(options: Mapping[str, str], *, timeout_s: float) -> RestClient:
    """`url`: unix:/path or http(s)://host:port; `user`: the name beside the token, default what the token says;
    `token` or `token_file` (read again at each use); `ca_file`: whose certificates to trust with https.

    Over TCP without either, tokens are made by `scontrol token`, with the options `slurm_conf`, `bin_dir` and `prefix`
    of the commands; over a unix socket without either none is sent: rest_auth/local serves slurmrestd's own user.
    """
    http = RestHttp(options["url"], ca_file=options.get("ca_file", ""), timeout_s=timeout_s)
    return RestClient(http, token=_token(options, timeout_s), user=options.get("user", ""))


def _token(options: Mapping[str, str], timeout_s: float) -> TokenSource:
    if options.get("token"):
        return fixed_token(options["token"])
    if options.get("token_file"):
        return token_from_file(options["token_file"])
    if options["url"].startswith(UNIX):
        return no_token
    return ScontrolToken(
        slurm_conf=options.get("slurm_conf", ""),
        bin_dir=options.get("bin_dir", ""),
        prefix=options.get("prefix", ""),
        user=options.get("user", ""),
        timeout_s=timeout_s,
    )
