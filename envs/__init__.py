"""Environments, installed as sharpo.envs."""
