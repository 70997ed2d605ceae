"""Fine-tuning on original and perturbed data; only opening a model imports torch."""
