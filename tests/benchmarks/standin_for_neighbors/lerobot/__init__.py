"""The part of `lerobot` that the worker of the neighbors imports."""

__version__ = "0.4.4"
