"""The documents of `docs/` as pages of the site."""
