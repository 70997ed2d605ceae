"""What a run holds, read back and shown."""
