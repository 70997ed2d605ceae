"""Serve pages to a browser on this machine, and to nobody else."""
