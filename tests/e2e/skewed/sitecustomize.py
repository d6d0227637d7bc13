"""Put on PYTHONPATH, it moves the clock of a whole Python process by SKEW_S seconds; the monotonic clock stays."""

import os
from datetime import UTC, datetime, timedelta

import time_machine

time_machine.travel(datetime.now(UTC) + timedelta(seconds=float(os.environ["SKEW_S"])), tick=True).start()
