"""What changed between two source trees of the original ggml; scripts/upstream_diff.py is the program."""
