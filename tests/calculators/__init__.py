"""Published KV-cache calculators, each asked in an environment of its own."""
