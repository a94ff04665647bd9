"""Scores that do not depend on the group, from an embedding that reveals it."""

import numpy as np

from parafair import FairCP, audit, compare_scores, datasets

data = datasets.marks(seed=0)
observed = data.tensor.to_dense().values.isnan().logical_not().numpy()

for method in ({"method": "none"}, {"method": "mutual-information", "strength": 1e5}, {}):
    model = FairCP(2, center=True, ridge=3.0, tol=1e-4, **method)
    model.fit(data.tensor, sensitive_features=data.sensitive_features)
    scores = model.inverse_transform(model.embedding_)
    (found,) = compare_scores(
        np.where(observed, scores, np.nan), sensitive_features=data.sensitive_features
    )
    leakage = audit(
        model.embedding_, sensitive_features=data.sensitive_features, attackers=["linear"]
    ).leakage
    print(
        f"{model.method:18}: residual {model.fit_.residual:.3f}, KS distance of scores "
        f"{found.ks:.3f}, leakage of the embedding {leakage:.3f}"
    )
