"""Fit a plain and a fair decomposition, and audit both."""

from parafair import FairCP, audit, datasets

data = datasets.synthetic(seed=0)
print(data.about)

for method, strength in (("none", None), ("invariant", 30)):
    model = FairCP(rank=8, method=method, strength=strength, tol=1e-3, random_state=0)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    print(f"\nmethod={method!r}: {model.fit_}")
    quick = {"attackers": ["linear", "svm", "forest"], "repeats": 1}
    print(audit(model.embedding_, sensitive_features=data.sensitive_features, **quick))
