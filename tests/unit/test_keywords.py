"""A mistyped keyword in Python is answered with the right one, as the command line does."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import sfumato as sf
from sfumato.errors import KeywordError

WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: sf.RankSwap(colums=["A"], window_percent=5), "columns"),
    (lambda: sf.Linkage(know=["A"]), "known"),
    (lambda: sf.InformationLoss(column=["A"]), "columns"),
    (lambda: sf.Plan(step=[]), "steps"),
    (lambda: sf.Schema(key=["A"]), "keys"),
    (lambda: sf.Variable(lable="x"), "label"),
    (lambda: sf.protect(None, limit={}), "limits"),
    (lambda: sf.measure(None, sedd=1), "seed"),
    (lambda: sf.run_battery(None, None, knwon=()), "known"),
    (lambda: sf.evaluate(None, None, holdot=None), "holdout"),
    (lambda: sf.Experiment(None, replicate=3), "replicates"),
]


@pytest.mark.parametrize(("call", "right"), WRONG)
def test_the_right_keyword_is_named(call: Callable[[], Any], right: str) -> None:
    with pytest.raises(KeywordError, match=f"did you mean '{right}'"):
        call()
    with pytest.raises(TypeError):  # what Python raises, for those who catch that
        call()


def test_what_is_declared_can_still_be_copied_and_sent() -> None:
    mask = sf.RankSwap(columns=["A"], window_percent=5)
    assert copy.copy(mask) == mask
    assert pickle.loads(pickle.dumps(mask)) == mask
    schema = sf.Schema(keys=["A"])
    assert pickle.loads(pickle.dumps(schema)) == schema
    with pytest.raises(TypeError):  # a required parameter left out
        sf.RandomSwap()
