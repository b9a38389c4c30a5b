"""Whole jobs that join rooms, callable from Python."""
