"""A real cluster on one machine, for the tests, the demo and docker-compose alike."""
