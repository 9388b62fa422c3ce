"""CellTable: the counts of every key combination in a file, judged by a tolerance."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.cells.assess import Assessment, assess
from sfumato.cells.cells import Cells


class CellTable(Cells):
    """Counts (and weights) of every combination of keys that occurs, over integer codes.

    One pass over the records finds the combinations that occur (the *cells*); everything after it
    (marginals, recodes, truncations, suppressions, frequencies) works on the cells and is lifted
    back to records only when asked. ``missing`` says how a missing key value is counted:

    - ``"matches_anything"``: it agrees with every value, on either side, as mu-ARGUS and sdcMicro
      count. A combination's frequency is the number of records that agree with it on every key
      where neither is missing.
    - ``"category"``: it is one more value of the key.

    >>> import polars as pl, sfumato as sf
    >>> people = sf.Microdata(pl.DataFrame({"sex": ["f", "m", "m", "f"], "age": [30, 30, 30, None]}))
    >>> cells = people.cells(["sex", "age"])
    >>> cells.to_frame().rows()
    [('f', 30, 1), ('f', None, 1), ('m', 30, 2)]
    >>> cells.frequencies().tolist()
    [2, 2, 2]
    >>> cells.recode("age", {30: "adult"}).levels["age"].to_list()
    ['adult']
    """

    def assess(self, tolerance: int, key_sets: Sequence[Sequence[str]] | None = None) -> Assessment:
        """Every combination of the key sets that fewer than ``tolerance`` records have."""
        return assess(self, tolerance, key_sets)
