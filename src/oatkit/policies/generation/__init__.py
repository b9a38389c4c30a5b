"""Generating tokens stage by stage, and decoding them into chunks."""
