"""Controls for an attack: changes like its own that should not succeed."""
