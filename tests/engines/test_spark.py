"""Without Java: what is said where Spark is missing, who gets keys of streams, data sets of several files."""

from __future__ import annotations

import pickle
import re
import socket
import sys
from collections.abc import Iterator
from multiprocessing.connection import Client
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.engines import spark_context, spark_jobs
from sfumato.engines.spark_keys import KeyOffice
from sfumato.errors import EngineError, InputError
from sfumato.stats.products import products

PLAN = """
format = 1
data = "people.parquet"
[roles]
sensitive = ["PAY"]
[[step]]
mask = "additive_noise"
columns = ["PAY"]
variance_ratio = 0.1
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    pl.DataFrame({"PAY": [float(k * 37 % 1009) for k in range(1000)]}).write_parquet(
        tmp_path / "people.parquet"
    )
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


# -- what isn't there -----------------------------------------------------------------------------


def refused(plan: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a run on Spark says that can't be; it leaves nothing."""
    assert main(["run", str(plan), "--out", str(plan.parent / "out"), "--quiet", *words]) == 2
    assert sorted(p.name for p in plan.parent.iterdir()) == ["people.parquet", "plan.toml"]
    return capsys.readouterr().err


def test_no_pyspark(plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    said = refused(plan, capsys, "--engine", "spark", "--master", "local[1]")
    assert "needs PySpark" in said
    assert "pip install 'sfumato[spark]'" in said


@pytest.mark.parametrize("home", ["", "no such folder"])
def test_no_java(
    home: str, plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", home)
    monkeypatch.setenv("PATH", str(plan.parent))
    said = refused(plan, capsys, "--engine", "spark", "--master", "local[1]")
    assert "needs Java 17, and there is none" in said
    assert "openjdk-17-jre-headless" in said


def test_an_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match="Java 17 or later, not 8"):
        spark_context.look_for_java()


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("spark://127.0.0.1:{port}", "where nothing answers"),
        ("spark://no-such-host.invalid:7077", "whose name isn't known"),
        ("sparkk://host:7077", "is no Spark master"),
        ("spark://host", "is no Spark master"),
        ("local[two]", "is no Spark master"),
    ],
)
def test_a_wrong_master(master: str, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        spark_context.look_for_master(master.format(port=closed_port()))


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local-cluster[2,1,1024]", "yarn", "k8s://https://x"]
)
def test_masters_that_need_no_look(master: str) -> None:
    spark_context.look_for_master(master)


def test_what_spark_cannot_do_is_said_before_any_work(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "for --engine spark" in refused(plan, capsys, "--master", "local[1]")
    plan.write_text(PLAN + '[release]\nformat = "csv"\n')
    said = refused(plan, capsys, "--engine", "spark", "--master", "local[1]")
    assert "releases Parquet" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ModuleNotFoundError: No module named 'sfumato'", "has no sfumato"),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", "more memory"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/x'", "all machines share"),
        ("OSError: [Errno 28] No space left on device", "disk of the cluster is full"),
        ("org.apache.spark.SparkException: Job aborted\nKeyError: 'secret value 7'", r"gave up \(KeyError\)"),
    ],
)
def test_what_spark_says_in_words(text: str, said: str) -> None:
    problem = spark_jobs.explained(RuntimeError(text))
    assert re.search(said, str(problem))
    assert "secret value" not in str(problem)


# -- the keys of streams --------------------------------------------------------------------------


@pytest.fixture
def office() -> Iterator[KeyOffice]:
    with KeyOffice("127.0.0.1", "127.0.0.1") as there:
        yield there


def test_draws_that_were_sent_give_the_same_streams(office: KeyOffice) -> None:
    seed = sf.Seed.from_int(7)
    draws = [seed.draws("incomes", '{"ratio": 0.1}'), seed.draws("areas")]
    sent = pickle.dumps(draws)
    assert seed._secret not in sent
    back = pickle.loads(sent)
    for one, two in zip(draws, back, strict=True):
        for address in (("PAY", "", ""), ("PAY", "north", "noise"), ("Größe", "ø", "\x1f")):
            assert one.stream(*address) == two.stream(*address)
    assert back[0].stream("PAY") != back[1].stream("PAY")


def test_draws_and_seeds_are_not_pickled_by_accident() -> None:
    seed = sf.Seed.from_int(7)
    for secret in (seed, seed.draws("incomes")):
        with pytest.raises(TypeError, match="pickled by accident"):
            pickle.dumps(secret)


def test_a_stranger_gets_no_key(office: KeyOffice) -> None:
    pickle.dumps(sf.Seed.from_int(7).draws("incomes"))
    from multiprocessing import AuthenticationError

    with pytest.raises((AuthenticationError, EOFError, ConnectionError)):
        Client(office.address, authkey=b"guess")
    silent = socket.create_connection(office.address)  # one who says nothing keeps nobody waiting
    back = pickle.loads(pickle.dumps(sf.Seed.from_int(8).draws("areas")))
    assert back.stream("PAY") == sf.Seed.from_int(8).draws("areas").stream("PAY")
    silent.close()


def test_nobody_answers_once_it_is_closed() -> None:
    with KeyOffice("127.0.0.1", "127.0.0.1") as office:
        back = pickle.loads(pickle.dumps(sf.Seed.from_int(7).draws("incomes")))
    with pytest.raises(OSError):
        back.stream("PAY")
    with pytest.raises(OSError):
        socket.create_connection(office.address, timeout=5)
    assert not office._door.is_alive()


# -- data sets of several files -------------------------------------------------------------------


def test_a_folder_of_parquet_files_is_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, values in (("part-00010.parquet", [3]), ("part-00002.parquet", [1, 2])):
        pl.DataFrame({"A": values}).write_parquet(tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-00002.parquet.crc").write_bytes(b"x")
    assert sf.read(tmp_path).frame["A"].to_list() == [1, 2, 3]
    assert sf.read(tmp_path, lazy=True).frame["A"].to_list() == [1, 2, 3]


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without Parquet files"):
        sf.read(tmp_path)
    with pytest.raises(InputError, match="is a folder"):
        sf.read(tmp_path, format="csv")
    pl.DataFrame({"A": [1]}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "YEAR=2020").mkdir()
    with pytest.raises(InputError, match="folders beside"):
        sf.read(tmp_path)


# -- sums -----------------------------------------------------------------------------------------


def test_products_are_sums_of_short_pieces_in_their_order() -> None:
    """Bit for bit what pieces of 4,096 give, and to rounding what exact sums give."""
    from math import fsum

    x = np.random.default_rng(1).lognormal(5, 2, (1, 30_000))
    plain = 0.0
    for start in range(0, 30_000, 4096):
        plain += float(np.dot(x[0, start : start + 4096], x[0, start : start + 4096]))
    assert products(x, x)[0, 0] == plain
    assert products(x, x)[0, 0] == pytest.approx(fsum(x[0] * x[0]), rel=1e-14)
