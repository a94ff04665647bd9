"""Recommend items without telling the gender: plain lists, fair lists, and what each costs.

Ratings are generated in the form of MovieLens; with a copy of your own, replace the first line by
``datasets.movielens("folder")``. Run it with

    python examples/13_recommend.py

It takes a few seconds on one core.
"""

from parafair import FairCP, audit, datasets, evaluate_rankings, split_by_time

data = datasets.ratings(0, users=200, items=120)
gender = data.sensitive_features["gender"]
parts = split_by_time(data.tensor, data.times, "user", test_size=0.2)

for name, settings in {"plain": {"method": "none"}, "fair": {"strength": 4.0}}.items():
    model = FairCP(3, center=True, ridge=30, tol=1e-3, n_init=1, random_state=0, **settings)
    model.fit(parts.train, sensitive_features=gender)
    scores = model.inverse_transform(model.embedding_)
    lists = evaluate_rankings(
        scores, parts.test, rated=parts.train, sensitive_features=gender, threshold=4
    )
    found = audit(
        model.embedding_, sensitive_features=gender, attackers=["linear", "svm"], permutations=1
    )
    low, high = lists.interval("recall@10")
    print(
        f"{name}: recall@10 {lists.value('recall@10'):.3f} ({low:.3f} to {high:.3f}), gap between "
        f"the genders {lists.gap('recall@10'):.3f}, leakage of the rows {found.leakage:.3f}"
    )

print(model.recommend([1, 2], 3).to_frame().round(2).to_string(index=False))
print("a user who is not in the data:")
print(model.recommend(9999, 3, unknown="offsets").to_frame().round(2).to_string(index=False))
