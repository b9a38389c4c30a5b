"""The commands, one file each: options, what is called with them, and what is printed.

A file has a frozen dataclass of options and `run(options, console)`, which returns the exit code.
`oatkit.cli` finds it by the table there.
"""
