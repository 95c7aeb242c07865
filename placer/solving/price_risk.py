"""What an answer becomes if the price that it rests on most is wrong."""

from __future__ import annotations

from typing import TypeAlias

from placer.cost_model.estimate import Estimate
from placer.documents.schemas import proofs
from placer.market.catalog import VmOffer
from placer.problem.placement import Placement

PriceCase: TypeAlias = proofs.PriceCase[Placement, Estimate]
PriceRisk: TypeAlias = proofs.PriceRisk[VmOffer, Placement, Estimate]
HIGH, USUAL, WITHOUT = proofs.PRICE_CASES
