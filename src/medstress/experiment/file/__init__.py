"""The experiment file: its tables as types, read and checked."""
