"""The promises of the simulated world."""
