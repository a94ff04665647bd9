"""How a model is shown: its picture, its page in a notebook, and the link to its documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sklearn
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from parafair.model.fitted import FittedCP
from parafair.model.pictures import plot
from parafair.model.view import model_view
from parafair.version import documentation_url

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ShownModel(FittedCP):
    """A model with a picture and a page."""

    # What scikit-learn's diagram needs to link to our pages instead of its own.
    _doc_link_module = "parafair"

    @property
    def _doc_link_template(self) -> str:
        url = documentation_url()
        return f"{url}/api/parafair.{{name}}.html" if url else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"name": type(self).__name__}

    def plot(self, *, feature: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the embedding: two principal components of the standardized columns.

        Args:
            feature: The sensitive feature that gives the colors; None for the first.
            ax: Axes of matplotlib to draw on; None for those of a new figure.
        """
        check_is_fitted(self)
        return plot(self, feature=feature, ax=ax)

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram, and what was found below it."""
        return str(estimator_html_repr(self)) + model_view(self)

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, str]:
        found = {"text/plain": repr(self)}
        if sklearn.get_config()["display"] == "diagram":
            found["text/html"] = self._repr_html_inner()
        return found
