"""Lightning callbacks, installed as sharpo.callbacks."""
