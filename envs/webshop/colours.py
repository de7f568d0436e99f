"""Colour words: an option that holds one is compared by that word alone."""

from __future__ import annotations

import re

_TEXT = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white
wine yellow
"""
COLOURS: tuple[str, ...] = tuple(_TEXT.split())
"""In the order in which they are tried: the first that a text holds stands for it."""
_WORDS = [(colour, re.compile(rf"\b{colour}\b")) for colour in COLOURS]


def by_substring(text: str) -> str:
    """Return the first colour that occurs anywhere in a text, else the text: the original's rule.

    Example:
        >>> by_substring("navy blue"), by_substring("rectangular")
        ('blue', 'tan')
    """
    return next((colour for colour in COLOURS if colour in text), text)


def by_word(text: str) -> str:
    """Return the first colour that is a word of a text, else the text: the mended rule.

    Example:
        >>> by_word("navy blue"), by_word("rectangular")
        ('blue', 'rectangular')
    """
    return next((colour for colour, pattern in _WORDS if pattern.search(text)), text)
