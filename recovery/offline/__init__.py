"""A job told by its log files and a hand-written record, without a scheduler or a database."""
