"""Tensor algebra: CP tensors, sums over observed entries, least squares in one factor."""
