"""The light policy."""
