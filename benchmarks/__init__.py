"""Benchmarks; see run.py."""
