"""One trial: containers, budgets, verifier, reward, record."""
