"""MedFuzz (Ness et al. 2024): an attacker model edits an item until the target errs."""
