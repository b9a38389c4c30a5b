"""Tensor maths with no idea of robots."""
