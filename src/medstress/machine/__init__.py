"""How this process uses the machine: threads, memory, oneDNN."""
