"""Tasks: what is asked and how the answer is judged."""
