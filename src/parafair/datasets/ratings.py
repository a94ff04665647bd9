"""Generated ratings in the form of MovieLens, for recommenders."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parafair.arguments import whole_number
from parafair.data.frames import check_memory, frame_of
from parafair.data.tensor_data import TensorData
from parafair.datasets.base import Dataset, register

ABOUT = (
    "Ratings from 1 to 5 of items by users, with times; gender, age and occupation; generated in "
    "the form of MovieLens, and tastes depend on gender and age"
)
OCCUPATIONS = ("artist", "educator", "engineer", "healthcare", "lawyer", "other", "writer")
WOMEN = 0.3
TASTES = 4
# Differences of tastes: between the genders, and per year of age.
OF_GENDER, OF_YEAR = 1.2, 0.05
# Standard deviations of the parts of a rating.
OF_USER, OF_ITEM, OF_TASTE, OF_NOISE = 0.35, 0.4, 0.4, 0.8
MEAN = 3.5
# How much more often people rate what they like, and the spread of popularity.
CHOICE, POPULARITY = 1.0, 1.0
FEWEST, DAY = 20, 86_400


@register(ABOUT)
def ratings(seed: int = 0, *, users: int = 400, items: int = 300) -> Dataset:
    """Generate ratings of items, most of them missing.

    Every user rates 20 items or more, rather popular ones and those the user likes, one after the
    other. A rating is the mean, an effect of the user, one of the item, four tastes and noise,
    rounded to 1, 2, ..., 5. Men and women differ in the first taste, young and old in the second.
    Three of ten users are women. Items that nobody has rated are left out.

    Args:
        seed: Seed of the random numbers.
        users: Number of users.
        items: Number of items, at least 40.

    >>> ratings(0, users=50, items=40).tensor
    TensorData(50 user x 40 item, 1,000 observed (50 %), sparse, float64)
    """
    whole_number("seed", seed, least=0)
    users = whole_number("users", users, least=4)
    items = whole_number("items", items, least=2 * FEWEST)
    check_memory(50 * users * items, f"ratings of {items} items by {users} users", "choose fewer")
    random = np.random.default_rng(seed)
    gender = np.where(random.permutation(users) < max(2, round(WOMEN * users)), "F", "M")
    age = random.integers(15, 70, users)
    occupation = random.choice(OCCUPATIONS, users)
    occupation[age < 23] = "student"
    tastes = random.normal(size=(users, TASTES))
    tastes[:, 0] += OF_GENDER * ((gender == "M") - (1 - WOMEN))
    tastes[:, 1] += OF_YEAR * (age - age.mean())
    liked = tastes @ random.normal(size=(items, TASTES)).T
    score = MEAN + OF_TASTE * liked + OF_ITEM * random.normal(size=items)
    score += OF_USER * random.normal(size=(users, 1)) + OF_NOISE * random.normal(size=liked.shape)
    user, item, time = _choices(random, CHOICE * OF_TASTE * liked)
    columns = {
        "user": user + 1,
        "item": item + 1,
        "rating": score[user, item].round().clip(1, 5),
        "time": time,
    }
    people = frame_of(
        {"user": np.arange(users) + 1, "gender": gender, "age": age, "occupation": occupation},
        for_what="datasets.ratings",
    )
    table = frame_of(columns, for_what="datasets.ratings")
    return rated("ratings", ABOUT, table, people.set_index("user"))


def rated(name: str, about: str, table: object, people: object) -> Dataset:
    """Return a data set of ratings from a table with the columns user, item, rating and time.

    Args:
        name: The name of the data set.
        about: What it is.
        table: The ratings, one row each.
        people: The features, with the users as index.
    """
    tensor = TensorData.from_table(table, modes=["user", "item"], value="rating")
    times = TensorData.from_table(table, modes=["user", "item"], value="time")
    features = people.loc[tensor.labels[0]]  # type: ignore[attr-defined]
    return Dataset(name, about, tensor, features, times=times.entries.numpy().astype(np.int64))


def _choices(
    random: np.random.Generator, liking: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return who rates which item, and when."""
    users, items = liking.shape
    more = np.asarray(random.lognormal(2.5, 1.0, users), dtype=np.int64)
    counts = np.minimum(FEWEST + more, items // 2)
    # The highest sums with Gumbel noise are a sample without replacement.
    keys = liking + POPULARITY * random.normal(size=items) + random.gumbel(size=liking.shape)
    order = np.argsort(-keys, axis=1)
    user = np.repeat(np.arange(users), counts)
    item = np.concatenate([order[u, : counts[u]] for u in range(users)])
    began = np.asarray(random.integers(0, 300 * DAY, users))
    # Within a user's time, in any order.
    time = began[user] + random.integers(0, 60 * DAY, len(user))
    return user, item, time
