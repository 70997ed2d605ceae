"""Local models through transformers, one file for each way of answering."""
