"""Observations to tokens to chunks."""
