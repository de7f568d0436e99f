"""The small catalogue that Lucene's answers were recorded for."""

import json

import pytest


def options_of(product):
    """Names and values as the catalogue's loader writes them."""
    groups = (product.get("customization_options") or {}).items()
    return {
        name.lower(): [entry["value"].strip().replace("/", " | ").lower() for entry in contents]
        for name, contents in groups
        if contents is not None
    }


@pytest.fixture(scope="session")
def catalogue(shared_data):
    """(id, text) of the 1,000 products, as they were indexed."""
    documents = {}
    for product in json.loads((shared_data / "webshop" / "items_shuffle_1000.json").read_text()):
        name = product["asin"]
        if name == "nan" or len(name) > 10 or name in documents:
            continue
        bullets = product["small_description"]
        bullet = bullets[0] if isinstance(bullets, list) else bullets
        options = ", and ".join(f"{key}: {', '.join(values)}" for key, values in options_of(product).items())
        documents[name] = " ".join([product["name"], product["full_description"], bullet, options]).lower()
    return list(documents.items())
