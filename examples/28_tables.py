"""
From two tables to predictions
==============================

Most tensors come as two tables: one row per score, and one row per person. Nothing has to be sorted
or filled in.
"""

import matplotlib.pyplot as plt

from parafair import FairCP, SensitiveFeatures, TensorData, datasets, split_cells
from parafair.audits.evaluation import evaluate_predictions

marks = datasets.marks(seed=0, students=120)
scores = marks.tensor.to_table()
people = marks.sensitive_features.reset_index()
print(scores.head(3).to_string(index=False), "\n")
print(people.head(3).to_string(index=False))

# %%
# Columns become modes, labels are matched by name, and an entry without a row is missing, not zero.

data = TensorData.from_table(scores, modes=["student", "module", "test"], value="value")
gender = SensitiveFeatures.from_table(people, ["gender"], key="student", labels=data.labels[0])
print(data)

# %%
# Fit to nine tenths of the marks, and predict the rest.

parts = split_cells(data, test_size=0.1, random_state=0)
model = FairCP(rank=2, center=True, ridge=1, tol=1e-3).fit(parts.train, sensitive_features=gender)
predicted = model.predict(parts.test)
errors = evaluate_predictions(parts.test, predicted, sensitive_features=gender)
print(f"RMSE of held-out marks: {errors.value('rmse'):.2f}")
# With labels, the embedding is easy to join with other tables.
print(model.set_output(transform="pandas").transform(data, sensitive_features=gender).head(3))

# %%
# Predicted against observed marks.

figure, axis = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
observed = parts.test.entries.numpy()
axis.scatter(observed, predicted, s=14, color="#0072b2", alpha=0.7)
ends = [observed.min(), observed.max()]
axis.plot(ends, ends, color="0.4", linewidth=0.8)
axis.set(xlabel="observed mark", ylabel="predicted mark", aspect="equal")
plt.show()

# %%
# **What you saw.** Tables in, predictions and a table of rows out. ``parafair fit scores.csv``
# does the same in the shell: :doc:`From tables to tensors </tables>`.
