"""A store in memory."""
