"""References that are made from the code: `make references` writes them to docs/."""
