"""What a training script carries: one file without dependencies, served for download and documented in docs/push.md."""
