"""Launchers: they start a trial's replicas, watch them, and end them."""
