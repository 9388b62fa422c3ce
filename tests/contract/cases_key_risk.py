"""Examples of the measures of keys and populations that need more than their roles."""

from __future__ import annotations

import sfumato as sf

CASES = {
    "population_risk": lambda data: sf.PopulationRisk(interactions="two_way", weighting="pml"),
    "t_closeness": lambda data: sf.TCloseness(t=0.3),
}
