"""The options of each command, one file a command."""
