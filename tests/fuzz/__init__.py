"""Structure-aware fuzzing: valid files with one thing wrong, run through the command line."""
