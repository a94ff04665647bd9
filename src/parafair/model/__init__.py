"""The estimator `FairCP`, and the choice of its settings."""
