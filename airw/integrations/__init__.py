"""Corpora in other frameworks, and their data as corpora; one package per framework."""
