"""scikit-learn's callbacks of a fit, such as its progress bar; from version 1.9 on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from parafair.solvers.loop import OnIteration
from parafair.solvers.objective import Objective

F = TypeVar("F", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # an older scikit-learn

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this version has no callbacks."""

    def with_callbacks(method: F) -> F:
        """Return a method as it is."""
        return method


class Stopped(KeyboardInterrupt):
    """A callback has asked to end the fit, which is treated like Ctrl-C without the error."""


class FitCallbacks:
    """Tells the callbacks of a model about its fit: a task, with a subtask for each iteration.

    Attributes:
        stopped: Whether a callback has asked to end the fit.
    """

    def __init__(self, model: Any, X: Any, y: Any) -> None:
        self.stopped = False
        self._context: Any = None
        self._given = {"estimator": model, "X": X, "y": y}
        if hasattr(model, "_init_callback_context"):
            # The number of iterations is not known: rough fits come before the last.
            self._context = model._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(**self._given)

    def before(self, then: OnIteration | None) -> OnIteration | None:
        """Return a function that tells callbacks about an iteration and calls `then`."""
        if not getattr(self._given["estimator"], "_skl_callbacks", None):
            return then

        def on_iteration(number: int, objective: Objective) -> None:
            task = self._context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(**self._given)
            # Iterations may be those of a sample or of a compressed tensor, so no model is handed
            # out before the end.
            self.stopped |= bool(task.call_on_fit_task_end(**self._given))
            if then is not None:
                then(number, objective)
            if self.stopped:
                raise Stopped

        return on_iteration

    def end(self) -> None:
        """Tell the callbacks that the model is fitted; they get a copy of it."""
        if self._context is not None:
            self._context.call_on_fit_task_end(**self._given, reconstruction_attributes={})
