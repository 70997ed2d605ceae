"""What an attack is compared with: changes like its own that should not have worked."""
