"""What every package stands on, and nobody outside `airw` imports."""
