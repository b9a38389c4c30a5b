"""Policies in simulators: run episodes, count success with intervals."""
