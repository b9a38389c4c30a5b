"""Flags of the closed-loop benchmarks that make them finish in seconds."""

TINY = ("--preset", "tiny", "--tokenizer-preset", "tiny", "--steps", "4", "--episodes", "2")
