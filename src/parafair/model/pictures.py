"""The picture of a model: its people in two dimensions, colored by a sensitive feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from parafair.arguments import one_of
from parafair.data.column import Column
from parafair.dependence.whitening import principal_plane
from parafair.display import shortened
from parafair.pictures import METHOD_COLORS, as_written, axes_for, draw_people, legend_beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from parafair.model.fitted import FittedCP


def plot(model: FittedCP, *, feature: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the embedding of a fitted model; see `FairCP.plot`."""
    column = _column(model, feature)
    plane = principal_plane(torch.from_numpy(np.asarray(model.embedding_))).numpy()
    # In data sorted by group the last group would be drawn over all others.
    order = np.random.RandomState(0).permutation(len(plane))
    xs, ys = plane[order].T
    with axes_for(ax, (5.0, 4.2)) as panel:
        if column is None:
            panel.scatter(xs, ys, s=16, color=METHOD_COLORS[0], alpha=0.7, linewidths=0)
        else:
            groups = [shortened(group) for group in column.categories]
            values = _values(model, column)[order]
            mark = draw_people(panel, xs.tolist(), ys.tolist(), values.tolist(), groups)
            if column.categories:
                legend_beside(panel, shortened(column.name))
            else:
                bar = panel.figure.colorbar(
                    mark, ax=panel, label=shortened(column.name), shrink=0.8
                )
                as_written(bar.ax)
        panel.set_title(f"{len(plane):,} people, two principal components", fontsize=10)
    return panel


def _column(model: FittedCP, feature: str | None) -> Column | None:
    """Return the feature to color by: the first, or by its name; None if there are none."""
    found = model.training_.features
    if found is None:
        if feature is not None:
            raise ValueError(
                f"feature={feature!r}, but the model was fitted without sensitive_features; leave "
                "feature out"
            )
        return None
    by_name = {column.name: column for column in found.columns}
    if feature is None:
        return found.columns[0]
    one_of("feature", feature, by_name)
    return by_name[feature]


def _values(model: FittedCP, column: Column) -> NDArray[np.float64]:
    """Return the number or the group of each person; NaN for people without the feature."""
    values = np.full(len(model.embedding_), np.nan)
    penalized = model.training_.penalized
    places = np.arange(len(values)) if penalized is None else penalized
    values[places] = column.values
    return values
