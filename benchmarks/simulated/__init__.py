"""A simulated fleet: healthy and failing jobs with a known truth, played through the detectors in virtual time."""
