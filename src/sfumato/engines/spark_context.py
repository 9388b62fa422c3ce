"""Spark itself: found, started, waited for and ended, with words for what may be missing.

Java, PySpark and a master that answers are looked for before anything is started, since Spark's own word for
their absence is long and late.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sfumato.errors import EngineError

JAVA: Final = 17
_ANSWER: Final = 10.0
"""Seconds in which a master's machine must answer."""
_REGISTER: Final = 45.0
"""Seconds in which a master that answers must accept us."""
_SETTINGS: Final = {
    "spark.app.name": "sfumato",
    "spark.log.level": "ERROR",
    "spark.sql.caseSensitive": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL: Final = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[(\s*\d+\s*,){2}\s*\d+\s*\]")
_FORMS: Final = "spark://HOST:PORT, yarn, k8s://…, or local[*] to try it on this machine"


def started(master: str | None, settings: Mapping[str, str], scratch: Path, patience: float) -> Any:
    """A Spark context; ``patience`` is how many seconds to wait for its executors."""
    look_for_pyspark()
    look_for_java()
    said = {**_SETTINGS, **_local(master, scratch), **_environment(), **settings}
    if master is not None:
        look_for_master(master)
        said["spark.master"] = master
    context = _context(said, scratch / "spark.log")
    try:
        _wait_for_executors(context, patience)
    except BaseException:
        ended(context)
        raise
    return context


def active() -> Any | None:
    """The Spark context that somebody else (a notebook, spark-submit) started here."""
    there = sys.modules.get("pyspark")
    return None if there is None else there.SparkContext._active_spark_context


def ended(context: Any) -> None:
    """No executor is at work from here on, and nothing that Spark wrote beside itself is left."""
    name, master, gateway = context.applicationId, context.master, context._gateway
    context.cancelAllJobs()
    context.stop()
    _end_gateway(gateway)
    if master.startswith("local-cluster"):  # its executors keep a diary in Spark's own folder
        from pyspark.find_spark_home import _find_spark_home

        diaries = Path(_find_spark_home()) / "work"
        shutil.rmtree(diaries / name, ignore_errors=True)
        with suppress(OSError):
            diaries.rmdir()


# -- what must be there ---------------------------------------------------------------------------


def look_for_pyspark() -> None:
    try:
        import pyspark
    except ImportError:
        raise EngineError("--engine spark needs PySpark", hint="pip install 'sfumato[spark]'") from None
    if int(pyspark.__version__.split(".")[0]) < 4:
        raise EngineError(
            f"--engine spark needs PySpark 4 or later, not {pyspark.__version__}",
            hint="pip install --upgrade 'sfumato[spark]'",
        )


def look_for_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {JAVA} (apt-get install openjdk-17-jre-headless), or let JAVA_HOME name its folder"
    where = f" (JAVA_HOME is {home})" if home else ""
    try:
        said = subprocess.run([java or "java", "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        raise EngineError(f"--engine spark needs Java {JAVA}, and there is none{where}", hint=hint) from None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found and int(found.group(1)) < JAVA:
        raise EngineError(
            f"--engine spark needs Java {JAVA} or later, not {found.group(1)}{where}", hint=hint
        )


def look_for_master(master: str, answer: float = _ANSWER) -> None:
    """Refuse what is no master, or a machine that doesn't answer."""
    if _LOCAL.fullmatch(master) or master == "yarn" or master.startswith("k8s://"):
        return
    named = re.fullmatch(r"spark://([^/\s]+)", master)
    places = [_place(p) for p in named.group(1).split(",")] if named else [None]
    reasons = []
    for place in places:
        if place is None:
            raise EngineError(f"{master!r} is no Spark master", hint=f"a master is {_FORMS}")
        try:
            socket.create_connection(place, timeout=answer).close()
            return
        except socket.gaierror:
            reasons.append(f"{place[0]}, whose name isn't known")
        except OSError:
            reasons.append(f"{place[0]}:{place[1]}, where nothing answers")
    raise EngineError(
        f"there is no Spark master at {' nor at '.join(reasons)}",
        hint="is the master started, and is this its address (its page says: URL: spark://…)?",
    )


def _place(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() and int(port) < 2**16 else None


# -- how it is started ----------------------------------------------------------------------------


def _local(master: str | None, scratch: Path) -> dict[str, str]:
    """On this machine alone: nothing listens outside, and what Spark spills lies with the rest."""
    if master is None or not master.startswith("local"):
        return {}
    loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {**loopback, "spark.local.dir": str(scratch)}


def _environment() -> dict[str, str]:
    """Executors look for packages where we do, and share sums among as many threads: the last bits of a
    matrix product depend on it."""
    said = {n: os.environ[n] for n in ("PYTHONPATH", "SFUMATO_THREADS", "NUMBA_CACHE_DIR") if n in os.environ}
    said["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    return {f"spark.executorEnv.{name}": value for name, value in said.items()}


def _context(said: Mapping[str, str], diary: Path, register: float = _REGISTER) -> Any:
    """The context, made beside us: so that a master that never answers can be left."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False).setAll(list(said.items()))
    out: list[Any] = []
    with diary.open("wb") as words:  # Spark's own words stay off the terminal
        try:
            gateway = launch_gateway(conf, {"stdout": words, "stderr": words})  # type: ignore[no-untyped-call]
        except Exception:
            raise EngineError(f"Spark can't be started{_last_words(diary)}") from None

    def make() -> None:
        try:
            out.append(SparkContext(conf=conf, gateway=gateway))
        except Exception as problem:
            out.append(problem)

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    maker.join(register if said.get("spark.master", "").startswith("spark://") else None)
    if out and not isinstance(out[0], Exception):
        return out[0]
    _end_gateway(gateway)
    maker.join(5)
    if not out or "unresponsive" in str(out[0]) or "stopped SparkContext" in str(out[0]):
        what = f"the Spark master {said.get('spark.master')} doesn't accept us"
        raise EngineError(what, hint="is that the master's port (7077 by default), and is it of Spark 4?")
    if "MASTER_URL_NOT_SET" in str(out[0]) or "A master URL must be set" in str(out[0]):
        raise EngineError("no Spark master is named", hint=f"say --master: {_FORMS}")
    raise EngineError(f"Spark can't be started{_last_words(diary, out[0])}")


def _last_words(diary: Path, problem: Exception | None = None) -> str:
    """What Spark said last, in one line."""
    lines = [*diary.read_text(errors="replace").splitlines(), *str(problem or "").splitlines()]
    told = [line.strip() for line in lines if re.search(r"(Exception|Error)\b[^:]*: \S", line)]
    return f": {told[-1][:300]}" if told else ""


def _wait_for_executors(context: Any, patience: float) -> None:
    if context.master.startswith("local") and not context.master.startswith("local-cluster"):
        return
    since = time.monotonic()
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver is one
        if time.monotonic() - since > patience:
            raise EngineError(
                f"the Spark master {context.master} gave us no executor within {patience:.0f} seconds",
                hint="has it workers, and have they as many cores and as much memory free as is asked for?",
            )
        time.sleep(0.1)


def _end_gateway(gateway: Any) -> None:
    """End the Java process: its settings were those of this run."""
    from pyspark import SparkContext

    with suppress(Exception):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = SparkContext._jvm = None
