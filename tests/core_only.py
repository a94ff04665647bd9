"""What works without any extra, and what each missing one says; ``python tests/core_only.py``.

Packages of extras that are installed are hidden, so it shows the same in every environment.
With the names of extras, ``python tests/core_only.py plot``, nothing is hidden: those extras must
work, and each one that is not there must say so.
"""

import os
import re
import sys
import tempfile
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

# Packages of the extras, by the name that is imported.
EXTRAS = {
    "cli": ("rich", "typer"),
    "cluster": ("dask", "distributed"),
    "data": ("pooch",),
    "fairlearn": ("fairlearn",),
    "limits": ("ot",),
    "parquet": ("pyarrow",),
    "plot": ("matplotlib",),
    "tables": ("pandas", "polars"),  # scikit-learn itself may need narwhals
    "tensorly": ("tensorly",),
    "xarray": ("xarray",),
}


class Hiding:
    """A finder of modules that does not find those of the extras."""

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        """Return where a module is; None if it belongs to an extra."""
        if any(name.split(".")[0] in packages for packages in EXTRAS.values()):
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


def main():
    """Hide the extras, use the core, then ask for what is hidden."""
    os.environ.pop("PARAFAIR_DATA", None)
    installed = sys.argv[1:]
    if not installed:
        sys.meta_path[:] = map(Hiding, sys.meta_path)
    known = {
        extra
        for requirement in requires("parafair")
        for extra in re.findall(r"extra == ['\"](\w+)['\"]", requirement)
    }
    assert known <= {*EXTRAS, "all"}, f"extras without a check here: {known - set(EXTRAS)}"
    assert set(installed) <= set(EXTRAS), f"no such extra: {installed}"
    model, data, result = use_the_core()
    sys.argv[1:] = ["--version"]
    calls = calls_of_extras(model, data, result)
    use(installed, calls)
    missing({extra: call for extra, call in calls.items() if not there(extra)})
    print(
        f"the core works with {', '.join(installed)}"
        if installed
        else "the core works without extras"
    )


def use_the_core():
    """Fit, embed, predict, audit, certify, save and load."""
    import numpy as np

    import parafair

    data = parafair.datasets.synthetic(0, shape=(60, 5, 4), rank=3)
    groups = data.sensitive_features
    model = parafair.FairCP(2, method="fair-pca", noise=0.5)
    model.fit(data.tensor, sensitive_features=groups)
    result = parafair.audit(
        model.embedding_, sensitive_features=groups, attackers=["linear"], permutations=1
    )
    assert "linear" in str(result)
    assert "No attacker" in str(parafair.certify(model).statements[0])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        again = parafair.FairCP.load(Path(folder) / "model")
    rows = again.transform(data.tensor[:3])
    assert np.array_equal(rows, model.transform(data.tensor[:3]))
    assert again.predict([[0, 1, 2]]).shape == (1,)
    parafair.show_versions()
    return model, data, result


def there(extra):
    """Whether all packages of an extra that users install are found; polars is the user's own."""
    return all(find_spec(package) for package in EXTRAS[extra] if package != "polars")


def calls_of_extras(model, data, result):
    """One call for each extra that needs its packages."""
    import parafair
    from parafair.__main__ import main as command

    groups = data.sensitive_features
    calls = {
        "cli": command,
        "data": lambda: parafair.datasets.adult(),
        "fairlearn": lambda: parafair.audit(
            model.embedding_, sensitive_features=groups, target=model.embedding_[:, 0]
        ),
        "limits": lambda: parafair.parity_limit(data.tensor, sensitive_features=groups),
        "parquet": lambda: parafair.data.frames.check_parquet("people.parquet"),
        "plot": result.draw,
        "tables": result.to_frame,
        "xarray": lambda: parafair.interop.factors_to_xarray(model),
    }
    # Without these there is nothing to call: their objects are arguments of the user.
    asked_by_nothing = {"cluster", "tensorly"}
    assert {*calls, *asked_by_nothing} == set(EXTRAS)
    return calls


def use(installed, calls):
    """The packages of the installed extras are there, and their calls work."""
    for extra in installed:
        assert there(extra), f"{extra} is not installed"
        if extra in calls and extra != "data":  # its call downloads a file
            try:
                calls[extra]()
            except SystemExit as end:  # of a command
                if end.code:
                    raise


def missing(calls):
    """Each missing extra is asked for: one sentence says what to install."""
    for extra, call in calls.items():
        try:
            call()
        except (ImportError, SystemExit) as error:
            text = str(error)
        else:
            text = "nothing was raised"
        assert f"pip install 'parafair[{extra}]'" in text, f"{extra}: {text}"
        assert "\n" not in text, text
        print(text)


if __name__ == "__main__":
    main()
