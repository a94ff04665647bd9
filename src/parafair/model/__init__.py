"""The estimator `FairCP`, and the selection of its settings."""
