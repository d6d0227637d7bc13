"""The path, one file per stage: poll, ingest, detect, diagnose, recommend, decide, act, verify, report.

reconcile.py moves one case one step and says when to look again; transition.py is the only writer of state.
Read them in that order and you have read the system.
"""
