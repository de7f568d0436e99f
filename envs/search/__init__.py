"""Lucene's English analyzer and BM25 without Java: exact rankings over memory-mapped arrays."""
