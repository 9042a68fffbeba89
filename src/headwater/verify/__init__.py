"""Verify: whether a copy is what its source says, and which rows are not."""
