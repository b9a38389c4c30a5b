"""Dataset formats, one file each; `format_table.py` lists them."""
