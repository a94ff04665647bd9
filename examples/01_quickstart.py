"""Fit, audit, compare with a plain decomposition: the library in a dozen lines."""

from parafair import FairCP, audit, datasets

data = datasets.synthetic(seed=0)
print(data.about)

for method, strength in (("none", None), ("khsic", 50_000)):
    model = FairCP(rank=8, method=method, strength=strength, random_state=0)
    model.fit(data.tensor, sensitive_features=data.sensitive)
    print(f"\nmethod={method!r}: {model.fit_}")
    print(audit(model.embedding_, data.sensitive))
