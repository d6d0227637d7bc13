"""External diagnostic services over HTTP: one module each, all with the Protocol of base.py (docs/providers.md)."""
