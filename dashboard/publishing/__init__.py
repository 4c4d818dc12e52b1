"""Pages on which experiments are published: authors, licence, citation, signature, deposit."""
