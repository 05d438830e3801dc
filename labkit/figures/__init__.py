"""Figures of trials: from tidy tables to matplotlib."""
