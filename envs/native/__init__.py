"""Household text games played in plain Python: compiled once by TextWorld, then without it."""
