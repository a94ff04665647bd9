"""Fit entries that stay in files: a log in no order is sorted by person, then streamed."""

import tempfile
from pathlib import Path

import numpy as np
import pandas

from parafair import FairCP, TensorData, audit, sort_parquet

PEOPLE, FILMS = 3000, 30


def write_log(folder: Path, random: np.random.Generator) -> pandas.DataFrame:
    """Write ratings to three files in the order in which they came; return the people."""
    people = pandas.DataFrame(
        {"user": np.arange(PEOPLE), "group": random.choice(["a", "b"], PEOPLE)}
    )
    taste = random.standard_normal((PEOPLE, 2)) + (people["group"] == "b").to_numpy()[:, None]
    films = random.standard_normal((FILMS, 2))
    cells = random.permutation(np.argwhere(random.random((PEOPLE, FILMS)) < 0.4))
    stars = (taste[cells[:, 0]] * films[cells[:, 1]]).sum(1) + random.standard_normal(len(cells))
    log = pandas.DataFrame({"user": cells[:, 0], "film": cells[:, 1], "stars": stars})
    folder.mkdir()
    for day, part in enumerate(np.array_split(np.arange(len(log)), 3)):
        log.iloc[part].to_parquet(folder / f"day-{day}.parquet", index=False)
    return people


def main() -> None:
    """Sort, fit and audit."""
    with tempfile.TemporaryDirectory() as folder:
        log, sorted_folder = Path(folder) / "log", Path(folder) / "sorted"
        people = write_log(log, np.random.default_rng(0))
        sort_parquet(log, sorted_folder, modes=["user", "film"], value="stars")
        data = TensorData.from_parquet(sorted_folder, memory="2GB")
        print(data)
        model = FairCP(2, method="hsic", strength=100.0, ridge=1.0, max_iter=50)
        model.fit(data, sensitive_features=people["group"])
        print(f"residual {model.fit_.residual:.3f}")
        rows = np.concatenate(
            [model.transform(part, sensitive_features=_of(people, part)) for part in data.parts()]
        )
        print("embedded again, part by part:", rows.shape)
        found = audit(model.embedding_, sensitive_features=people["group"], attackers=["linear"])
        print(f"leakage {found.leakage:.3f}")


def _of(people: pandas.DataFrame, part: TensorData) -> pandas.Series:
    """Return the groups of the people of a part."""
    return people.set_index("user").loc[part.labels[0], "group"]


if __name__ == "__main__":
    main()
