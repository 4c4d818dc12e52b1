"""Deposits: bundles at Zenodo, or at a service with its API, with a DOI."""

from experiments.deposits.deposit_requests import (
    NotDone,
    forget_deposit,
    has_token,
    is_offered,
    list_due_deposits,
    list_missing,
    name_service,
    request_deposit,
    stop_deposit,
)
from experiments.deposits.depositing import deposit_bundle

__all__ = [
    "NotDone",
    "deposit_bundle",
    "forget_deposit",
    "has_token",
    "is_offered",
    "list_due_deposits",
    "list_missing",
    "name_service",
    "request_deposit",
    "stop_deposit",
]
