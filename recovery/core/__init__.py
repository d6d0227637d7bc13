"""The rules of the domain: pure Python, no Django, no input or output, the time is passed in."""
