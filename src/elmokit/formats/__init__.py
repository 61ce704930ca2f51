"""Bytes to objects and back: checkpoints in every published ELMo format, and files of vectors.

Everything here treats a file as hostile data: it is checked at the border, never executed, and a
broken one raises FormatError or FileError. Files are written to a temporary name, then renamed.
"""
