"""sfumato: soften the outlines, keep the picture. Statistical disclosure limitation for microdata.

>>> import sfumato as sf
>>> data = sf.decks.housing()
>>> masked = sf.RankSwap(columns=["INCOME"], window_percent=5).mask(data, seed=1)   # doctest: +SKIP

Nothing heavy is loaded until it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the same as typing's, without the cost of loading it
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

# Public name → the module it lives in. Masks and measures aren't listed: the registry finds them.
_HOME = {
    "Microdata": "data.microdata",
    "Schema": "data.schema",
    "Variable": "data.schema",
    "Range": "data.schema",
    "Seed": "draws",
    "Plan": "plan",
    "Run": "run",
    "Experiment": "experiment",
    "protect": "experiment.protect",
    "evaluate": "foreign",
    "Evaluation": "foreign",
    "measure": "contract.measure",
    "Result": "contract.result",
    "Results": "contract.result",
    "read": "io",
    "write": "io",
    "safe_table": "tables",
    "SafeTable": "tables",
    "realise": "tables",
    "CellTable": "cells",
    "run_battery": "run.battery",
    "known_curve": "run.curve",
    "SfumatoError": "errors",
    "SfumatoWarning": "errors",
    "GuaranteeError": "errors",
    "PlanError": "errors",
}
_ROOMS = ("decks", "masks", "risk", "utility", "tables", "cells", "errors", "registry")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        value = getattr(importlib.import_module(f"sfumato.{_HOME[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"sfumato.{name}")
    elif name[:1].isupper():
        from sfumato import registry
        from sfumato.errors import did_you_mean

        value = registry.by_class_name(name)
        if value is None:
            hint = did_you_mean(name, __dir__())
            raise AttributeError(f"sfumato has no {name!r}; {hint}")
    else:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from sfumato import registry

    classes = [c.__name__ for c in (*registry.masks().values(), *registry.measures().values())]
    return sorted({*_HOME, *_ROOMS, *classes, "__version__"})
