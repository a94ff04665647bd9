"""Data at the boundary: tensors with missing entries, sensitive features, splits, centering."""
