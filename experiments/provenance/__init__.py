"""Where numbers come from: a graph of what they were made of, by what, for whom (W3C PROV)."""
