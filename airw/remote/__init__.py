"""Corpora on other machines, behind the same protocols as those on this one."""
