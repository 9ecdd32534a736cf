"""Disclosure: what a selection commits to, revealed step by step: what is known, the text itself, the files beside it.

Nothing is read from a file that does not lie below a folder the caller names: a pointer is metadata, and whoever wrote
the corpus could have written any path there.
"""
