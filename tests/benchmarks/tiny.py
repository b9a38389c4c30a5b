"""Flags of the closed-loop benchmarks that make them finish in seconds."""

TINY = ("--scale", "tiny", "--steps", "4", "--episodes", "2", "--workers", "1")
