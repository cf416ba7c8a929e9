"""The parts of scripts/abi_diff.py."""
