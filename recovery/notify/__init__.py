"""Sending of messages, one kind of channel in each file. They know the core and nothing of the tables."""
