"""Capture: a database's own log as streams of changes."""
