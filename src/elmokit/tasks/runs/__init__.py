"""Runs: how a task model is trained with several seeds, kept in a folder, resumed and loaded."""
