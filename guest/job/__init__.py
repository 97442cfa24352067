"""A job: which trial runs when, what it adds up to, and what a killed run left behind."""
