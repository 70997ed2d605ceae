"""The command line: reads flags, prints, and nothing else; `medstress.run` does the work."""
