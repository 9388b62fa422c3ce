"""Mid-ranks against SciPy's, and commands that don't wait for ``scipy.stats``."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import nbinom, rankdata

from sfumato.masks.cluster_shuffle.audit import too_many
from sfumato.stats.ranks import mid_ranks


@pytest.mark.parametrize("n", [0, 1, 2, 50, 1_000])
@pytest.mark.parametrize("values", [1, 3, 40, 10**9])
def test_mid_ranks_are_those_of_rankdata(n, values):
    column = np.random.default_rng(n + values).integers(0, values, n).astype(np.float64)
    assert np.array_equal(mid_ranks(column), rankdata(column))


@pytest.mark.parametrize("found", range(1, 25))
def test_counts_are_judged_by_the_negative_binomial_law(found):
    chance = np.array([0.0, 1.0, 0.0, 2.0] * 5)
    beyond = found > chance.mean() + 3 * np.sqrt(chance.var(ddof=1) * (1 + 1 / len(chance)))
    law = nbinom.sf(found - 1, chance.sum() + 0.5, len(chance) / (len(chance) + 1))
    assert too_many(float(found), chance) == (beyond and law < 0.00135)


def test_a_cluster_shuffle_does_not_import_the_statistics_of_scipy():
    code = (
        "import sys, sfumato as sf\n"
        "deck = sf.decks.housing().slice(0, 60)\n"
        "sf.ClusterShuffle(columns=deck.schema.sensitive, smallest=5).mask(deck, seed=1)\n"
        "assert 'scipy.stats' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
