"""Rollout engines and weight publishing."""
