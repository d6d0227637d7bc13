"""Exit code 0 where the web server in this container answers that it is well; the container's health check."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("HEALTHCHECK_URL", "http://127.0.0.1:8000/api/v1/health")


def main() -> int:
    host = os.environ.get("RECOVERY_ALLOWED_HOSTS", "localhost").split(",")[0].strip().lstrip(".")
    # As the proxy in front would ask, so that Django neither refuses the host nor redirects to https.
    request = urllib.request.Request(URL, headers={"Host": host, "X-Forwarded-Proto": "https"})  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=4) as answer:  # noqa: S310 - our own
            print(answer.read(2000).decode("utf-8", "replace"))
            return 0
    except urllib.error.HTTPError as error:
        print(f"{URL} answers {error.code}: {error.read(2000).decode('utf-8', 'replace')}", file=sys.stderr)
    except OSError as error:
        print(f"{URL} does not answer: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
