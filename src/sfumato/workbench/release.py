"""A signed release: what ``sfumato run PLAN --seed-file SEED --out FOLDER`` makes, and who signed it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sfumato.data.microdata import Microdata
from sfumato.draws import Seed
from sfumato.errors import ReleaseError
from sfumato.plan.plan import Plan
from sfumato.run.run import carry_out

SIGNATURE = "signature.json"


def inside(base: Path, name: str, what: str) -> Path:
    """A plain name in the plan's folder: no other place is written to."""
    plain = name.strip()
    if not plain or plain in (".", "..") or any(c in plain for c in "/\\\0") or plain.startswith("."):
        raise ReleaseError(
            f"The {what} must be a plain name in the plan's folder.", hint="for instance: release"
        )
    return base / plain


def write(
    plan: Plan,
    data: Microdata,
    base: Path,
    options: dict[str, Any],
    tell: Callable[[str, float, int], None],
) -> dict[str, Any]:
    """Run, write both bundles, keep the seed where that was asked, and put the signature inside.

    The seed is on disk before the release is: one without its seed couldn't be made again.
    """
    folder = inside(base, options["out"], "folder")
    seed_file = inside(base, options["seed_name"], "seed's name") if options.get("seed_name") else None
    if folder.exists() and not options.get("overwrite"):
        raise ReleaseError(
            f"There is a folder {folder.name} already; nothing was written.",
            hint="choose another name, or tick that it is replaced",
        )
    seed = Seed.from_file(seed_file) if seed_file is not None and seed_file.exists() else Seed.new()
    run = carry_out(plan, data, seed, progress=tell)
    if not run.verdict.safe:
        raise ReleaseError(f"Not released: {run.verdict.text}", hint="; ".join(run.verdict.do) or None)
    if seed_file is not None and not seed_file.exists():
        seed.save(seed_file)
    tell("writing and reading back", 1, 1)
    release = run.release(folder, overwrite=bool(options.get("overwrite")))
    signed = release.internal / SIGNATURE
    signed.write_text(
        json.dumps({**options["signed"], "plan": plan.hash()}, ensure_ascii=False, indent=2) + "\n",
        encoding="utf-8",
    )
    signed.chmod(0o600)
    return {
        "folder": folder.name,
        "seed": seed_file.name if seed_file is not None else None,
        "verdict": run.verdict.to_dict(),
        "signed": options["signed"],
        "public": _files(release.public),
        "internal": _files(release.internal),
    }


def _files(folder: Path) -> list[dict[str, Any]]:
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    return [{"name": p.relative_to(folder).as_posix(), "bytes": p.stat().st_size} for p in found]
