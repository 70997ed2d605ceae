"""Sources of multiple-choice questions: each module reads one and returns `Loaded`."""
