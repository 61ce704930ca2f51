"""Checkpoints in every published ELMo format.

`load` lists the formats and is the entry to them, `save` the exit; `catalogue` knows the published
models. Everything here treats a file as hostile data: it is checked at the border, never executed,
and a broken one raises FormatError or FileError. Files are written to a temporary name, then
renamed. Nothing is imported here: the formats need torch, which a list of models does not.
"""
