"""On a real Spark with two executor processes: every mask gives the records that it gives in memory.

One test, so that Spark is started once however the suite is shared among processes; what it looks at are its
parts. Without Java or PySpark it is skipped, and says so; ``SFUMATO_SPARK=required`` (in CI) makes that a
failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from cases import deck_for, example
from odd_masks import Boasts, Doubles, Fails
from test_streaming import STEPS, on_disk, people

import sfumato as sf
from sfumato import registry
from sfumato.contract.context import Context
from sfumato.contract.engine import InParts
from sfumato.contract.mask import Mask
from sfumato.data.microdata import Microdata
from sfumato.engines import spark_context
from sfumato.engines.spark import Spark, Sparked
from sfumato.engines.steps import carry_out
from sfumato.errors import EngineError, GuaranteeError, MaskError
from sfumato.io.replaceable import refuse_foreign
from sfumato.plan.identifying import _LOOK as LOOK

MASTER = "local-cluster[2,1,1024]"
HERE = Path(__file__).parent
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.driver.memory": "512m",
}
PATCH = """
import sfumato.data.microdata, sfumato.engines.streaming, sfumato.engines.spark
for module in (sfumato.data.microdata, sfumato.engines.streaming, sfumato.engines.spark):
    module.BLOCK = 200
"""
PLANS = ("rows", "exact noise", "columns", "targets")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spark]:
    """Spark with two executors, whose blocks are as small as ours."""
    try:
        spark_context.look_for_pyspark()
        spark_context.look_for_java()
    except EngineError as problem:
        refuse = pytest.fail if os.environ.get("SFUMATO_SPARK") == "required" else pytest.skip
        refuse(f"no Spark: nothing was tried on a cluster ({problem.message}; {problem.hint})")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(PATCH)
    paths = [tmp_path / "path", HERE, HERE.parent / "contract", *sys.path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    for module in ("data.microdata", "engines.streaming", "engines.spark"):
        monkeypatch.setattr(f"sfumato.{module}.BLOCK", 200)
    monkeypatch.setattr("sfumato.release.parts.PART", 100)
    (tmp_path / "scratch").mkdir()
    with Spark(MASTER, tmp_path / "scratch", chunk=190, settings=SETTINGS) as engine:
        yield engine
    assert not list((tmp_path / "scratch").iterdir())


def same(plan: sf.Plan, data: Microdata, engine: Spark, folder: Path) -> None:
    """The plan gives in memory what it gives on the cluster."""
    small = plan.run(data, seed=5, measure=False)
    run = plan.run(on_disk(data, folder), seed=5, measure=False, engine=engine)
    assert isinstance(run.masked, InParts)
    assert run.masked.schema == small.masked.schema
    assert [s.checks for s in run.steps] == [s.checks for s in small.steps]
    assert [s.touched for s in run.steps] == [s.touched for s in small.steps]
    assert [s.notes.warnings for s in run.steps] == [s.notes.warnings for s in small.steps]
    assert run.masked.frame.equals(small.masked.frame, null_equal=True)


def alike(mask: Mask, data: Microdata, engine: Spark, folder: Path) -> None:
    """The step gives in memory what it gives on the cluster."""
    draws = sf.Seed.from_int(3).draws("step")
    small, notes, checks = mask.carry_out(data, draws, Context(original=data))
    held = engine.hold(on_disk(data, folder))
    large, said, judged = carry_out(mask, held, draws, Context(original=held))
    assert isinstance(large, InParts)
    assert large.schema == small.schema
    assert judged == checks
    assert (said.touched, said.warnings) == (notes.touched, notes.warnings)
    assert large.frame.equals(small.frame, null_equal=True)


def test_on_a_cluster(
    cluster: Spark, tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = people()
    with subtests.test("two processes are at work"):
        assert len(set(cluster.run(_who, range(16)))) == 2
    for name, cls in registry.masks().items():
        with subtests.test("every mask", mask=name):
            deck = deck_for(cls)
            alike(example(cls, deck), deck, cluster, tmp_path)
    for name in PLANS:
        with subtests.test("whole plans", plan=name):
            same(sf.Plan(steps=STEPS[name]), data, cluster, tmp_path)
    for number, options in enumerate([{}, {"drop": ["HH"], "shuffle": False}]):
        with subtests.test("releases", options=options):
            releases(options, data, cluster, tmp_path / f"release {number}", monkeypatch)
    with subtests.test("several files are one"):
        several(data, cluster, tmp_path)
    with subtests.test("an executor is killed"):
        killed(data, cluster, tmp_path)
    with subtests.test("a broken promise"), pytest.raises(GuaranteeError, match="aren't the same set"):
        sf.Plan(steps=[Boasts(column="WAGE")]).run(data, seed=1, engine=cluster)
    with subtests.test("a failure of arithmetic"), pytest.raises(MaskError, match="can't compute with"):
        sf.Plan(steps=[Fails(column="WAGE")]).run(data, seed=1, engine=cluster)
    with subtests.test("a run that is stopped"):
        stopped(data, cluster, tmp_path)


def _sampled(original: Microdata, masked: Microdata, seed: sf.Seed) -> tuple[Microdata, Microdata]:
    """All records as a sample, brought by executors."""
    rows = np.arange(len(original))
    return original.take(rows), masked.take(rows)


def _who(_: int) -> int:
    return os.getpid()


def releases(
    options: dict[str, Any], data: Microdata, engine: Spark, folder: Path, patch: pytest.MonkeyPatch
) -> None:
    """The same records in the same order, in several files, and the rest of the bundle byte for byte; the
    driver read nothing but the sample that measures look at, and the first records for names of people."""
    folder.mkdir()
    steps = [*STEPS["rows"], sf.RankSwap(columns=["WEALTH"], window_percent=10, within=["AREA"])]
    plan = sf.Plan(steps=steps, schema=data.schema, release={"identifiers": ["ZIP"], **options})
    small = plan.run(data, seed=5, measure=False).release(folder / "small")
    read, real = [], Sparked._read

    def noted(self: Sparked, columns: Any, start: int, length: int | None) -> pl.DataFrame:
        read.append(start if length != LOOK else None)
        return real(self, columns, start, length)

    with patch.context() as watched:
        watched.setattr(Sparked, "_read", noted)
        watched.setattr("sfumato.run.run.looked_at", _sampled)
        run = plan.run(on_disk(data, folder), seed=5, measure=False, engine=engine)
        large = run.release(folder / "large")
    assert set(read) <= {None}
    assert large.data.is_dir()
    assert len(list(large.data.iterdir())) == 5
    assert sf.read(large.data).frame.equals(sf.read(small.data).frame, null_equal=True)
    orders = [sf.read(r.internal / "order.parquet").frame for r in (small, large)]
    assert orders[0].equals(orders[1])
    for name in ("dictionary.json", "report.html"):
        assert (small.public / name).read_bytes() == (large.public / name).read_bytes()
    refuse_foreign(large.folder)  # every file is listed in a manifest as it is


def several(data: Microdata, engine: Spark, folder: Path) -> None:
    """Records are counted through the files of a folder, in the order of their names."""
    (folder / "parts").mkdir()
    for name, start, length in (("b.parquet", 150, 300), ("a.parquet", 0, 150), ("_SUCCESS", 0, 0)):
        data.frame.slice(start, length).write_parquet(folder / "parts" / name)
    held = Microdata(sf.read(folder / "parts", lazy=True), data.schema)
    plan = sf.Plan(steps=[sf.AdditiveNoise(columns=["WAGE", "RENT"], variance_ratio=0.1)])
    run = plan.run(held, seed=5, measure=False, engine=engine)
    small = plan.run(data, seed=5, measure=False).masked.frame
    assert run.masked.frame.select("WAGE", "TOTAL").equals(small.select("WAGE", "TOTAL"))


def killed(data: Microdata, engine: Spark, folder: Path) -> None:
    """Its work is done again elsewhere, with the same outcome."""
    before = set(engine.run(_who, range(16)))
    marker = folder / "killed"
    plan = sf.Plan(steps=[Doubles(column="WAGE", marker=str(marker))])
    run = plan.run(on_disk(data, folder), seed=5, measure=False, engine=engine)
    assert marker.exists()
    assert run.masked.frame["WAGE"].equals(data.frame["WAGE"] * 2)
    assert run.masked.frame["TOTAL"].equals(data.frame["WAGE"] * 2 + data.frame["RENT"])
    assert set(engine.run(_who, range(16))) != before


def stopped(data: Microdata, engine: Spark, folder: Path) -> None:
    """No release, and no task is left at work."""

    def stop(what: str, done: float, parts: int) -> None:
        if what.startswith("step") and done % 1:
            raise KeyboardInterrupt

    plan = sf.Plan(steps=STEPS["rows"])
    with pytest.raises(KeyboardInterrupt):
        plan.run(on_disk(data, folder), seed=5, engine=engine, progress=stop)
    assert not engine.context.statusTracker().getActiveJobsIds()
