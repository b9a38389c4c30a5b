"""The prefix lab: a live web page over tokenizers and a dataset."""

from oatkit.lab.lab import Lab

__all__ = ["Lab"]
