"""Synthetic test decks: no real person in them.

>>> import sfumato as sf
>>> sf.decks.housing()
Microdata(64,998 records × 10 columns; id=IDNUM, keys=['REGION', 'BEDROOMS', 'BATHS', 'YR_BLT'], \
sensitive=['INCOME', 'HOME_VAL', 'MORTGAGE', 'MAINTAIN', 'TAXES'], geography=['REGION'])
"""

# The functions have the names of their modules, so they are bound here, once the modules are loaded:
# a later import of a submodule finds it loaded and leaves these names alone.
from sfumato.decks.households import household_chunks, households, persons
from sfumato.decks.housing import housing
from sfumato.decks.incomes import incomes

__all__ = ["household_chunks", "households", "housing", "incomes", "persons"]
