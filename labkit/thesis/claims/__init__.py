"""The thesis's claims as code: what each needs, what decides it, and its verdict."""
