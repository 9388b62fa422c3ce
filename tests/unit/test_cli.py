"""The command line as a person and as a program use it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from sfumato.cli import main
from sfumato.cli.commands import COMMANDS, present

PLAN = """\
format = 1
data = "people.csv"
[roles]
id = "ID"
keys = ["AREA"]
sensitive = ["INCOME"]
[[step]]
mask = "random_swap"
columns = ["INCOME"]
rate_percent = 20
[[measure]]
measure = "information_loss"
columns = ["INCOME"]
[limits]
information_loss.il1 = { at_most = 2.0 }
[release]
format = "csv"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    frame = pl.DataFrame(
        {"ID": range(1, 61), "AREA": ["n", "s", "w"] * 20, "INCOME": [float(k * 31 % 97) for k in range(60)]}
    )
    frame.write_csv(tmp_path / "people.csv")
    (tmp_path / "people.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_names_every_command(capsys) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in present())
    assert main([]) == 2
    assert main(["--version"]) == 0


@pytest.mark.parametrize("name", sorted(present()))
def test_every_command_has_help_with_an_example(name: str, capsys) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "example:" in shown
    assert f"sfumato {name}" in shown.split("example:")[1]
    assert COMMANDS[name] == importlib.import_module(f"sfumato.cli.{name}").HELP


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, sfumato, sfumato.cli; sfumato.cli.main(['--help']);"
        "heavy = ('numpy', 'polars', 'numba', 'scipy', 'pandas', 'pyarrow', 'rich', 'argparse');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_an_unknown_command_is_bad_usage(capsys) -> None:
    assert main(["chek"]) == 2
    assert "did you mean 'check'?" in capsys.readouterr().err
    assert main(["run", "--nonsense"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_check(folder: Path, capsys) -> None:
    assert main(["check", "people.toml"]) == 0
    assert "no mistakes" in capsys.readouterr().out
    (folder / "people.toml").write_text(
        PLAN.replace('"INCOME"]\nrate', '"INCOMES"]\nrate').replace("rate_percent", "rate")
    )
    assert main(["check", "people.toml"]) == 2
    assert "people.toml:10: error: random_swap has no parameter 'rate'" in capsys.readouterr().out
    assert main(["check", "people.toml", "--json"]) == 2
    assert [p["line"] for p in json.loads(capsys.readouterr().out)["problems"]] == [9, 10]
    assert main(["check", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "A sfumato plan"


def test_run_releases(folder: Path, capsys) -> None:
    before = (folder / "people.csv").read_bytes()
    assert main(["run", "people.toml", "--out", "release", "--save-seed", "the.seed"]) == 0
    shown = capsys.readouterr()
    assert "release/public" in shown.out
    seed = (folder / "the.seed").read_text().strip()
    assert seed not in shown.out + shown.err
    released = pl.read_csv(folder / "release/public/data.csv")
    assert sorted(released["INCOME"]) == sorted(pl.read_csv(folder / "people.csv")["INCOME"])
    assert (folder / "people.csv").read_bytes() == before
    # The kept seed makes the same file again.
    assert main(["run", "people.toml", "--out", "again", "--seed-file", "the.seed"]) == 0
    assert (folder / "again/public/data.csv").read_bytes() == (
        folder / "release/public/data.csv"
    ).read_bytes()
    assert main(["run", "people.toml", "--out", "release"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_trial_writes_nothing(folder: Path, capsys) -> None:
    assert main(["run", "people.toml"]) == 0
    assert "nothing was written" in capsys.readouterr().out
    assert sorted(p.name for p in folder.iterdir()) == ["people.csv", "people.toml"]


def test_a_failed_limit_is_exit_1(folder: Path, capsys) -> None:
    (folder / "people.toml").write_text(PLAN.replace("at_most = 2.0", "at_most = 0.0"))
    assert main(["run", "people.toml", "--out", "release"]) == 1
    assert "fails" in capsys.readouterr().out
    assert not (folder / "release").exists()


def test_json_for_programs(folder: Path, capsys) -> None:
    assert main(["run", "people.toml", "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["ok"] is True
    assert main(["run", "missing.toml", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_copies_are_independent(folder: Path) -> None:
    assert main(["run", "people.toml", "--out", "release", "--copies", "2"]) == 0
    one, two = (folder / f"release/copy-{k}/public/data.csv" for k in (1, 2))
    assert one.read_bytes() != two.read_bytes()


def test_copies_are_compared_on_an_analysis(folder: Path, capsys) -> None:
    assert (
        main(["run", "people.toml", "--out", "release", "--copies", "2", "--analysis", "INCOME ~ AREA"]) == 0
    )
    assert "copies: INCOME ~ AREA:" in capsys.readouterr().out
    assert "INCOME ~ AREA" in (folder / "release/copies.txt").read_text()
    assert main(["run", "people.toml", "--analysis", "INCOME ~ AREA"]) == 2


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell: str, capsys) -> None:
    assert main(["completion", shell]) == 0
    assert "rate" not in capsys.readouterr().err


def test_a_defect_shows_no_traceback_and_no_data(
    folder: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.plan.plan import Plan

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("value 12345 of INCOME")

    monkeypatch.setattr(Plan, "run", broken)
    monkeypatch.delenv("SFUMATO_DEBUG", raising=False)
    assert main(["run", "people.toml"]) == 2
    shown = capsys.readouterr()
    assert "12345" not in shown.err + shown.out
    assert "Traceback" not in shown.err
    assert "RuntimeError" in shown.err


def test_the_installed_script(folder: Path) -> None:
    script = Path(sys.executable).parent / "sfumato"
    env = {k: v for k, v in os.environ.items() if k != "SFUMATO_DEBUG"}
    done = subprocess.run(
        [script, "check", "nowhere.toml"], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 2
    assert "can't be read" in done.stderr


def test_a_refused_run_leaves_no_seed(folder: Path, capsys) -> None:
    (folder / "release").mkdir()
    (folder / "release" / "mine.txt").write_text("mine")
    assert main(["run", "people.toml", "--out", "release", "--save-seed", "s"]) == 2
    assert main(["run", "people.toml", "--out", "release", "--save-seed", "s", "--overwrite"]) == 2
    assert "mine.txt" in capsys.readouterr().err
    assert not (folder / "s").exists()
    assert (folder / "release" / "mine.txt").read_text() == "mine"
    (folder / "s").write_text("another's")
    assert main(["run", "people.toml", "--out", "new", "--save-seed", "s"]) == 2
    assert "never written over" in capsys.readouterr().err
    assert (folder / "s").read_text() == "another's"


def test_run_tells_its_cautions(folder: Path, capsys) -> None:
    (folder / "people.csv").write_bytes("ID,AREA,INCOME\n1,é,5\n1,s,6\n3,s,7\n".encode("latin-1"))
    assert main(["run", "people.toml"]) == 0
    shown = capsys.readouterr()
    assert "isn't UTF-8" in shown.err
    assert "caution: the id ID isn't unique" in shown.out


def test_without_limits_none_is_said_to_hold(folder: Path, capsys) -> None:
    assert main(["run", "people.toml"]) == 0
    assert "every guarantee and limit holds" in capsys.readouterr().out
    (folder / "people.toml").write_text(PLAN.partition("[limits]")[0])
    assert main(["run", "people.toml"]) == 0
    assert "the plan sets no limits" in capsys.readouterr().out


def test_no_command_writes_over_its_input(folder: Path, capsys) -> None:
    before = (folder / "people.csv").read_bytes()
    (folder / "link.csv").symlink_to("people.csv")
    assert main(["init", "people.csv", "--out", "people.csv", "--force", "--no-search"]) == 2
    words = ["safe", "people.csv", "--keys", "AREA", "--tolerance", "3", "--overwrite"]
    assert main([*words, "--out", "link.csv"]) == 2
    assert "is the input" in capsys.readouterr().err
    assert main([*words, "--out", "a.csv", "--report", "./a.csv"]) == 2
    assert main(["run", "people.toml", "--out", "r"]) == 0
    assert main(["report", "r", "--out", "people.csv"]) == 2
    assert (folder / "people.csv").read_bytes() == before
    assert not (folder / "a.csv").exists()
    (folder / "demo").mkdir()
    (folder / "demo" / "housing.parquet").write_text("mine")
    assert main(["demo"]) == 2
    assert (folder / "demo" / "housing.parquet").read_text() == "mine"


def test_check_says_what_a_run_would_refuse(folder: Path, capsys) -> None:
    lines = ["ID;AREA;INCOME", *(f"{k};n;{k},5" for k in range(1, 9)), "9;s;a secret word"]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.toml").write_text(PLAN + "[variables.INCOME]\nunit = 0.5\n")
    assert main(["check", "people.toml"]) == 2
    shown = capsys.readouterr().out
    assert "INCOME should hold numbers, but has text in 1 record (records 9)" in shown
    assert "secret" not in shown
    (folder / "people.toml").write_text("format = 1\n")
    assert main(["check", "people.toml"]) == 0
    shown = capsys.readouterr().out
    assert "warning: the plan names no data" in shown
    assert "warning: the plan has no steps" in shown


def test_no_column_name_steers_the_terminal(tmp_path: Path, capsys) -> None:
    file = tmp_path / "people.csv"
    file.write_text("AGE\x1b[2J,INCOME\n" + "".join(f"{20 + i},{i * 1000}\n" for i in range(40)))
    assert main(["init", str(file), "--out", str(file.with_suffix(".toml")), "--no-search"]) == 0
    assert main(["check", str(file.with_suffix(".toml"))]) in (0, 2)
    assert main(["run", str(file.with_suffix(".toml")), "--out", str(tmp_path / "out")]) in (0, 1, 2)
    shown = capsys.readouterr()
    assert "AGE" in shown.out + shown.err
    assert "\x1b" not in shown.out + shown.err


def test_a_failed_limit_comes_with_a_way_out(folder: Path, capsys) -> None:
    """Every person alone in a block: no mask of the amounts keeps an intruder from guessing right."""
    attack = '[[measure]]\nmeasure = "distance_linkage"\nknown = ["INCOME"]\nblock_on = ["ID"]\n'
    limit = "[limits]\ndistance_linkage.rate = { at_most = 0.1 }\n"
    text = PLAN.replace('id = "ID"\n', "").replace("[limits]\n", attack + limit)
    (folder / "people.toml").write_text(text)
    assert main(["run", "people.toml", "--out", "release"]) == 1
    said = capsys.readouterr().out
    assert "guessing alone finds 1, above the limit of 0.1" in said
    assert "--despite-limits" in said
    assert not (folder / "release").exists()
    wide = text.replace('block_on = ["ID"]', 'block_on = ["AREA"]').replace(
        "rate_percent = 20", "rate_percent = 0"
    )
    (folder / "people.toml").write_text(wide)
    assert main(["run", "people.toml", "--out", "release"]) == 1
    said = capsys.readouterr().out
    assert "guessing" not in said
    assert "mask more" in said


def test_a_line_now_and_then_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import threading

    from sfumato.cli import command

    monkeypatch.setattr(command, "EVERY", 0.01)
    spoken = threading.Event()
    shown = command.plain
    monkeypatch.setattr(command, "plain", lambda text: (spoken.set(), shown(text))[1])
    for quiet in (False, True):
        with command.progress(quiet) as tell:
            tell("step incomes", 1.25, 4)
            spoken.clear()
            assert spoken.wait(30)
        said = capsys.readouterr()
        assert said.out == ""
        assert "step incomes (2 of 4, about 10 s left)" in said.err


def test_the_seed_is_spoken_of_before_and_only_where_something_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = pl.DataFrame({f"V{i:02d}": [float(i + j % 7) for j in range(40)] for i in range(20)})
    people.write_csv(tmp_path / "people.csv", separator=";", include_header=True)
    columns = ", ".join(f'"V{i:02d}"' for i in range(20))
    head = 'data = "people.csv"\n[release]\nformat = "csv"\n'
    drawn = f'{head}[[step]]\nmask = "random_swap"\ncolumns = [{columns}]\nrate_percent = 50\n'
    (tmp_path / "drawn.toml").write_text(drawn)
    (tmp_path / "coded.toml").write_text(f'{head}[[step]]\nmask = "recode"\ncolumn = "V01"\nwidth = 10\n')
    assert main(["run", str(tmp_path / "drawn.toml"), "--out", str(tmp_path / "one")]) == 0
    said = capsys.readouterr().out
    assert said.index("will not be kept") < said.index("VERDICT")
    # Twenty columns are folded; the dialect of the file, which is the input's, is announced.
    assert "and 12 more" in said
    assert "semicolons between values" in said
    assert main(["run", str(tmp_path / "coded.toml"), "--out", str(tmp_path / "two")]) == 0
    assert "kept" not in capsys.readouterr().out.partition("VERDICT")[0]
    kept = ["--save-seed", str(tmp_path / "seed")]
    assert main(["run", str(tmp_path / "drawn.toml"), "--out", str(tmp_path / "three"), *kept]) == 0
    assert "will not be kept" not in capsys.readouterr().out
