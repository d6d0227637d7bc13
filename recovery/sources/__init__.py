"""Where progress comes from: job logs and checkpoint folders."""
