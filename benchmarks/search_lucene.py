"""Lucene itself, for search_speed.py: needs Java 17 with its compiler, and Lucene 8's jars (Debian: liblucene8-java).

One JVM indexes and searches in one thread, with the analyzer and the similarity that WebShop's engine sets.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from search_texts import Texts

JARS = Path("/usr/share/java")
PARTS = ("lucene-core", "lucene-analyzers-common")
SOURCE = Path(__file__).with_name("LuceneSpeed.java")


@dataclass(frozen=True)
class Lucene:
    """What was measured, in words, and each query's documents, best first."""

    told: str
    rankings: list[list[str]]


def measure(texts: Texts, queries: list[str], k: int, folder: Path) -> Lucene | None:
    """Index the texts and ask the queries; None, and one line that says why, where Java or Lucene is absent.

    Args:
        texts: to index.
        queries: to ask.
        k: documents a query.
        folder: for the index and what goes in and out; deleted at the end.
    """
    jars = [next(iter(sorted(JARS.glob(f"{part}-[0-9]*.jar"))), None) for part in PARTS]
    if shutil.which("java") is None or shutil.which("javac") is None or None in jars:
        print("Lucene is not compared: it needs java, javac and Lucene 8 (apt-get install liblucene8-java)")
        return None
    path = ":".join(str(jar) for jar in jars)
    folder.mkdir(parents=True)
    try:
        with (folder / "documents.tsv").open("w", encoding="utf-8") as file:
            for name, text in texts:
                file.write(f"{name}\t{' '.join(text.split())}\n")
        (folder / "queries.txt").write_text("\n".join(queries) + "\n", encoding="utf-8")
        subprocess.run(["javac", "-cp", path, "-d", str(folder), str(SOURCE)], check=True)
        done = subprocess.run(
            ["java", "-XX:ActiveProcessorCount=1", "-XX:+UseSerialGC", "-cp", f"{path}:{folder}", "LuceneSpeed",
             str(folder), str(k)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found = (folder / "found.txt").read_text(encoding="utf-8").splitlines()
    finally:
        shutil.rmtree(folder)
    return Lucene(done.stdout.strip(), [line.split() for line in found])
