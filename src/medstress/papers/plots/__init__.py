"""Figures of the papers as drawings; the numbers come from the modules beside this room."""
