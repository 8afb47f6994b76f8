"""Everything secret: the simulated world, the oracles, the notebooks' source, the mistakes."""
