"""The store in memory."""
