"""Fine-tuning on original and perturbed data; torch is imported where a model is opened."""
