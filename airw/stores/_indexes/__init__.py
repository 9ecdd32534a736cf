"""Indexes in memory that both stores use; synchronous, without locks."""
