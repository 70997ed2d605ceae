"""What a run says: each capability computes a typed result from a `Run`, and the result shows
itself."""
