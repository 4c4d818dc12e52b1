"""Whether Tare's own parts work: services, queues, visits to clusters, storage, what is stuck."""
