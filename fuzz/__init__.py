"""A campaign of damaged input: `python -m fuzz`, or `make fuzz`.

The rules: a call succeeds, or it raises an `ElmoError` of one line and at most 500 characters. No
other exception, no hang, no more than 2 GB of memory, no write outside its folder, no executed
code. After a kill at any rename, removal or new folder, the same command works, and nothing that
was there before is lost.
"""
