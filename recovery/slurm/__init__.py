"""The only door to Slurm: one small Protocol and its back ends."""
