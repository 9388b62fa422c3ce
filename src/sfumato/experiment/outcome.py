"""What an experiment found: the tidy frame, the frontier with its Monte-Carlo error, the best plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.drawing import Html, Picture, face, scatter
from sfumato.drawing.face import table as grid
from sfumato.errors import MeasureError, did_you_mean

if TYPE_CHECKING:
    from sfumato.contract.measure import Measure
    from sfumato.plan.plan import Plan


class Outcome:
    """The runs of an experiment.

    ``frame`` is tidy: plan, point, replicate, measure, figure, value, seconds (of the run), problem
    (why a run was refused, else null). ``ran`` says how many runs were made now, not read back.
    """

    def __init__(self, plan: Plan, frame: pl.DataFrame, *, ran: int) -> None:
        self.plan, self.frame, self.ran = plan, frame, ran

    def __repr__(self) -> str:
        points = self.frame["point"].n_unique()
        return f"Outcome({points} points, {self.frame.height:,} figures, {self.ran} runs made)"

    def _repr_html_(self) -> str:
        found = self.points()
        rows = [
            [
                p["label"],
                p["runs"],
                p["y"],
                p["y_error"],
                p["x"],
                p["x_error"],
                "yes" if p["frontier"] else "no",
            ]
            for p in found["points"]
        ]
        heads = ["plan", "runs", found["risk"], "± se", found["loss"], "± se", "on the frontier"]
        return face(repr(self), Html(self.plot().charts[0]) if rows else "", grid(heads, rows))

    def plot(self, *, risk: str | None = None, loss: str | None = None) -> Picture:
        """The risk-utility map: every point with two standard errors, and the frontier."""
        found = self.points(risk=risk, loss=loss)
        if not found["points"]:
            raise MeasureError("there is no point to draw: every run was refused", hint="see problems()")
        return Picture([scatter(found["points"], found["loss"], found["risk"], title="Risk-utility map")])

    def means(self) -> pl.DataFrame:
        """Mean, standard deviation and standard error of every figure at every point."""
        known = self.frame.filter(pl.col("problem").is_null() & pl.col("value").is_not_nan())
        table = known.group_by("point", "measure", "figure", maintain_order=True).agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").std().alias("sd"),
            pl.len().alias("runs"),
        )
        return table.with_columns((pl.col("sd") / pl.col("runs").sqrt()).alias("error"))

    def problems(self) -> pl.DataFrame:
        """The runs that were refused, and why."""
        return self.frame.filter(pl.col("problem").is_not_null()).select("point", "replicate", "problem")

    def overlaps(self) -> pl.DataFrame:
        """The paper's table of every ``interval_overlap`` in the plan, at every point: J over all
        replicates and coefficients (average, central 90%, intervals that don't overlap).

        Columns as of :func:`~sfumato.utility.overlap_table.overlap_table`, with the point.
        """
        tables = []
        for name, measure in zip(self.plan.measure_ids(), self.plan.measures, strict=True):
            table = measure.table_of_runs(name, self.frame.filter(pl.col("measure") == name))
            if table is not None:
                tables.append(table)
        return pl.concat(tables) if tables else pl.DataFrame()

    # -- the map ----------------------------------------------------------------------------------

    def axes(self, risk: str | None = None, loss: str | None = None) -> tuple[str, str]:
        """The two figures of the map, as ``measure.figure``: by default the first attack (else the
        first risk measure) and the information loss (else the first utility measure)."""
        plan = self.plan
        labelled = list(zip(plan.measure_ids(), plan.measures, strict=True))
        risks = [i for i, m in labelled if m.side == "risk"]
        rates = [i for i, m in labelled if m.side == "risk" and m.bounds == (0.0, 1.0)]
        losses = [i for i, m in labelled if m.side == "utility"]
        first = [i for i, m in labelled if m.name == "information_loss"]
        chosen = [risk or next(iter([*rates, *risks]), None), loss or next(iter([*first, *losses]), None)]
        out = []
        for figure, word in zip(chosen, ("risk", "loss"), strict=True):
            if figure is None:
                raise MeasureError(
                    f"the experiment has no measure of {word}", hint=f"add one, or name `{word}=`"
                )
            measure, _, name = figure.partition(".")
            there = {f"{m}.{f}" for m, f in self.frame.select("measure", "figure").unique().iter_rows() if m}
            full = f"{measure}.{name or 'value'}"
            if there and full not in there:
                raise MeasureError(f"there is no figure {full!r}", hint=did_you_mean(full, sorted(there)))
            out.append(full)
        return out[0], out[1]

    def frontier(self, *, risk: str | None = None, loss: str | None = None) -> pl.DataFrame:
        """Every point with its mean risk and loss, and whether another dominates it.

        A point is dominated where another is at least as good in both means and better in one.
        ``doubtful`` marks points whose place isn't settled: on the frontier, but within two standard
        errors of being dominated, or dominated by less than that. Measures of which higher is better
        are turned round.
        """
        names = self.axes(risk, loss)
        means = self.means()
        table = None
        for name, column in zip(names, ("risk", "loss"), strict=True):
            measure, figure = name.split(".", 1)
            part = means.filter((pl.col("measure") == measure) & (pl.col("figure") == figure)).select(
                "point",
                pl.col("mean").alias(column),
                pl.col("error").alias(f"{column}_error"),
                *([pl.col("runs")] if column == "risk" else []),
            )
            table = (
                part if table is None else table.join(part, on="point", how="inner", maintain_order="left")
            )
        assert table is not None
        values = table.select("risk", "loss").to_numpy() * np.array([self._sign(n) for n in names])
        errors = table.select("risk_error", "loss_error").fill_null(0.0).fill_nan(0.0).to_numpy()
        on, doubtful = non_dominated(values, errors)
        return table.with_columns(frontier=pl.Series(on), doubtful=pl.Series(doubtful)).sort("loss", "risk")

    def _sign(self, name: str) -> float:
        return -1.0 if self._measure(name).direction == "higher" else 1.0

    def _measure(self, name: str) -> Measure:
        plan = self.plan
        return dict(zip(plan.measure_ids(), plan.measures, strict=True))[name.split(".", 1)[0]]

    def best(
        self,
        *,
        max_risk: float | None = None,
        max_loss: float | None = None,
        risk: str | None = None,
        loss: str | None = None,
    ) -> dict[str, Any]:
        """The point with the least loss at a risk of at most ``max_risk`` (or the other way round).

        Of a measure of which higher is better (an overlap, say) the limit is the least allowed, and
        the best point has the most of it.
        """
        if (max_risk is None) == (max_loss is None):
            raise MeasureError("give `max_risk` or `max_loss`, one of them")
        # A search knows points that it didn't run; what is chosen was run.
        table = self.frontier(risk=risk, loss=loss).filter(pl.col("runs") > 0)
        bound, other, limit = (
            ("risk", "loss", max_risk) if max_risk is not None else ("loss", "risk", max_loss)
        )
        assert limit is not None
        sign = dict(zip(("risk", "loss"), map(self._sign, self.axes(risk, loss)), strict=True))
        fits = table.filter(sign[bound] * pl.col(bound) <= sign[bound] * limit).sort(
            sign[other] * pl.col(other), sign[bound] * pl.col(bound)
        )
        if not fits.height:
            nearest = sign[bound] * float((sign[bound] * table[bound]).min() or 0.0)  # type: ignore[arg-type]
            least, most = ("least", "most") if sign[bound] > 0 else ("most", "least")
            raise MeasureError(
                f"no point has a {bound} of at {most} {limit:g}; the {least} is {nearest:.4g}",
                hint="widen the grid, or mask more",
            )
        return dict(fits.row(0, named=True))

    def points(self, *, risk: str | None = None, loss: str | None = None) -> dict[str, Any]:
        """The map as plain values, for a report."""
        names = self.axes(risk, loss)
        rows = [
            {
                "label": r["point"],
                "x": r["loss"],
                "y": r["risk"],
                "x_error": r["loss_error"],
                "y_error": r["risk_error"],
                "runs": r["runs"],
                "frontier": r["frontier"],
                "doubtful": r["doubtful"],
            }
            for r in self.frontier(risk=risk, loss=loss).to_dicts()
        ]
        better = ["higher" if self._sign(name) < 0 else "lower" for name in names]
        return {
            "risk": names[0],
            "loss": names[1],
            "risk_better": better[0],
            "loss_better": better[1],
            "points": rows,
        }


def non_dominated(values: Any, errors: Any = None) -> tuple[Any, Any]:
    """Which rows (all columns: lower is better) no other row dominates, and whose place is in doubt.

    >>> on, _ = non_dominated([[1, 3], [2, 2], [3, 3], [3, 1]])
    >>> on.tolist()
    [True, True, False, True]
    """
    v = np.asarray(values, dtype=np.float64)
    e = np.zeros_like(v) if errors is None else np.asarray(errors, dtype=np.float64)
    n = len(v)
    on, doubtful = np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    for i in range(n):
        no_worse = (v <= v[i]).all(axis=1) & (v < v[i]).any(axis=1)
        on[i] = not no_worse.any()
        spread = 2.0 * np.sqrt(e**2 + e[i] ** 2)
        surely = (v + spread <= v[i]).all(axis=1) & (v + spread < v[i]).any(axis=1)
        maybe = (v - spread <= v[i]).all(axis=1) & (v - spread < v[i]).any(axis=1)
        maybe[i] = False
        doubtful[i] = maybe.any() if on[i] else not surely.any()
    return on, doubtful
