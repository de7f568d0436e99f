"""The trainable policy and how it is parallelised."""
