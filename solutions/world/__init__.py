"""The simulated world: what a decode step costs, which runs are sampled, and how noisy they are."""
