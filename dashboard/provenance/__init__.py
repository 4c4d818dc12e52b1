"""Pages that show where numbers come from, and what a review of the artefact would ask."""
