"""Measures of dependence between rows and sensitive features."""
