"""The back ends of Slurm against a newer release than this machine's: in a chroot of a newer Debian, beside pyslurm."""
