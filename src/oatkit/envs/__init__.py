"""Simulators, one file each, used to make demonstrations and to evaluate.

    from oatkit.envs.metaworld import MetaWorld

A simulator's packages are imported when one of its environments is made, not before.
"""
