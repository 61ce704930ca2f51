"""Files that are whole or not there: `read` without trust, `write` without loss.

`folders` has the rule for output folders, unfinished work and locks, `arrays` files of numbers.
"""
