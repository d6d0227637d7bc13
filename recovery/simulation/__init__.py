"""Scenarios: a written-down course of things on a simulated cluster, played in virtual time through the whole path.

scenario   what a scenario file says, as values
reading    the file, checked: errors name the field and the remedy
tables     how single values of a TOML table are read
naming     whether what a file names is there: nodes, jobs, runs
database   a throw-away database for one run
running    plays it: the real pipeline, a simulated Slurm, a scripted operator
telling    what happened, as a timeline and as figures
judging    whether that is what the scenario expects
"""
