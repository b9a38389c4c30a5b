"""Adds a toy of everything that can be added, exactly as its page of the docs says."""
