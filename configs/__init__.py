"""Hydra configs, installed as sharpo.configs."""
