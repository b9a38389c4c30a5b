"""Thin launchers of the engines that the field uses: each starts commands and says how they end."""
