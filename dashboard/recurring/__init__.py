"""Recurring experiments: their rule, their control charts, and what is exported of them."""
