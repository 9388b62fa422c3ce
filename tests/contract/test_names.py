"""The public names of the design: every class, parameter, default and choice that users rely on."""

from __future__ import annotations

import pytest

import sfumato as sf

MASKS: dict[str, list[str]] = {
    "TopBottomCode": ["columns", "top", "bottom", "top_percent", "bottom_percent"],
    "Recode": ["column", "width", "mapping", "hierarchy", "level"],
    "Truncate": ["column", "digits"],
    "LocalSuppress": ["keys", "key_sets", "tolerance", "importance", "method"],
    "RandomSwap": ["columns", "rate_percent", "within"],
    "TOrderSwap": ["keys", "rate_percent", "within"],
    "RankSwap": ["columns", "window_percent", "correlation", "mean_change", "interval", "within"],
    "ConfidentialityEdit1990": [
        "match_on",
        "swap",
        "within",
        "rate_percent",
        "small_area",
        "small_area_size",
        "small_area_rate_percent",
    ],
    "ConfidentialityEdit2000": ["keys", "swap", "tolerance", "order", "order_by", "sample_percent"],
    "RecordSwap": ["household", "hierarchy", "similar", "rate_percent", "tolerance", "carry_along"],
    "GroupSwap": [
        "strata",
        "n_swap",
        "rate_percent",
        "probabilities",
        "draw",
        "pairing",
        "centre",
        "covariates",
        "formula",
    ],
    "AdditiveNoise": ["columns", "variance_ratio", "rescale", "exact", "residual", "flag_zeros", "within"],
    "MixtureNoise": ["columns", "variance_ratio", "rescale", "component_variance", "root", "within"],
    "LinkageSwap": ["attack", "columns", "cells", "rate_percent"],
    "ControlledDistortion": ["records", "values", "shift", "columns", "helpers"],
    "Microaggregate": ["columns", "k"],
    "Pram": ["columns", "keep_probability", "matrix", "within"],
}

MEASURES: dict[str, list[str]] = {
    "Tolerance": ["tolerance", "key_sets", "max_dimension", "keys"],
    "KAnonymity": [],
    "LDiversity": [],
    "IndividualRisk": ["variant"],
    "Suda": [],
    "PopulationRisk": ["model", "keys", "interactions", "terms", "weighting", "weight", "sampling_percent"],
    "TCloseness": ["t", "keys", "sensitive", "distance"],
    "KMap": ["k", "keys", "population", "weight"],
    "DeltaPresence": ["lowest", "highest", "keys", "population", "weight"],
    "Linkage": ["known", "block_on", "metric", "agreement_tolerance", "weights", "one_to_one"],
    "DistanceLinkage": ["known", "block_on", "metric"],
    "SelfTrainedLinkage": ["known", "block_on"],
    "RankAttack": ["columns", "window_percent"],
    "NoiseAttack": ["columns"],
    "SupervisedLinkage": ["known", "share_known"],
    "IntervalDisclosure": ["percent"],
    "IntruderTest": ["block_on", "skeptical_of", "known", "within_percent", "weights"],
    "InformationLoss": ["columns"],
    "Score": ["attack", "columns"],
    "Dissimilarity": ["table"],
    "PercentageBias": ["of", "classes", "p", "f"],
    "Propensity": ["columns", "formula"],
    "IntervalOverlap": ["formula", "family", "within"],
    "MomentRatios": ["columns", "within"],
    "Subdomain": ["where", "correct"],
}

DEFAULTS = {
    ("Linkage", "metric"): "l",
    ("Linkage", "agreement_tolerance"): 0.2,
    ("Linkage", "weights"): "equal",
    ("Linkage", "one_to_one"): True,
    ("Tolerance", "tolerance"): 3,
    ("RankSwap", "interval"): "calibrated",
    ("MixtureNoise", "component_variance"): 0.025,
    ("MixtureNoise", "root"): "principal",
    ("AdditiveNoise", "residual"): "mask",
    ("IntruderTest", "within_percent"): 10,
    ("Subdomain", "correct"): True,
    ("RankAttack", "window_percent"): None,
}


@pytest.mark.parametrize(("name", "parameters"), [*MASKS.items(), *MEASURES.items()])
def test_the_class_and_its_parameters(name: str, parameters: list[str]) -> None:
    there = getattr(sf, name).parameters()
    assert [p for p in parameters if p not in there] == []


@pytest.mark.parametrize(
    ("place", "value"), DEFAULTS.items(), ids=lambda x: ".".join(x) if isinstance(x, tuple) else ""
)
def test_defaults(place: tuple[str, str], value: object) -> None:
    name, parameter = place
    assert getattr(sf, name).parameters()[parameter].default == value


@pytest.mark.parametrize(
    "name",
    [
        "read",
        "Microdata",
        "Schema",
        "Seed",
        "Plan",
        "Run",
        "Experiment",
        "measure",
        "Result",
        "Results",
        "safe_table",
        "SafeTable",
        "realise",
        "decks",
    ],
)
def test_the_other_names(name: str) -> None:
    assert getattr(sf, name) is not None


def test_names_that_are_not_there_suggest_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean 'RankSwap'"):
        sf.RankSwop
