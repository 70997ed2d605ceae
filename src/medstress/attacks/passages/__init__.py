"""Probes that edit the passage alone: does the victim read, or remember?"""
