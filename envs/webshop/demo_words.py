"""The words that made-up products are put together from."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of product: its family, the search it is found by, its name, place in the shop, options and prices."""

    family: str
    query: str
    name: str
    place: str
    options: tuple[str, ...]
    low: float
    high: float


_TABLE = """
beauty|face creams|face cream|Beauty & Personal Care > Skin Care > Face|scent,volume|6|45
beauty|body lotions|body lotion|Beauty & Personal Care > Skin Care > Body|scent,volume|5|30
beauty|hair masks|hair mask|Beauty & Personal Care > Hair Care > Treatments|scent,volume|7|40
beauty|shampoos|shampoo bottle|Beauty & Personal Care > Hair Care > Washing|scent,volume|5|28
beauty|lipsticks|lipstick|Beauty & Personal Care > Makeup > Lips|color,pack|4|25
beauty|nail polishes|nail polish|Beauty & Personal Care > Makeup > Nails|color,pack|3|18
electronics|usb cables|usb cable|Electronics > Accessories > Cables|color,length|4|20
electronics|phone cases|phone case|Electronics > Accessories > Cases|color,style|6|30
electronics|bluetooth speakers|bluetooth speaker|Electronics > Audio > Speakers|color,style|15|120
electronics|headphones|headphones|Electronics > Audio > Headphones|color,style|12|150
electronics|desk monitors|desk monitor|Electronics > Screens > Monitors|screen,style|90|400
electronics|tablet stands|tablet stand|Electronics > Screens > Stands|color,length|9|45
fashion|t-shirts|t-shirt|Clothing > Tops > T-Shirts|color,size|8|35
fashion|hooded sweaters|hooded sweater|Clothing > Tops > Sweaters|color,size|18|70
fashion|hiking trousers|hiking trousers|Clothing > Bottoms > Trousers|color,size|20|85
fashion|swim shorts|swim shorts|Clothing > Bottoms > Shorts|color,size|10|40
fashion|running shoes|running shoes|Clothing > Shoes > Sport|color,shoe size|25|130
fashion|ankle boots|ankle boots|Clothing > Shoes > Boots|color,shoe size|30|160
garden|table lamps|table lamp|Home & Kitchen > Lighting > Lamps|color,style|15|90
garden|string lights|string lights|Home & Kitchen > Lighting > Strings|color,length|8|35
garden|throw pillows|throw pillow|Home & Kitchen > Textiles > Pillows|color,width|9|40
garden|window curtains|window curtains|Home & Kitchen > Textiles > Curtains|color,width|14|75
garden|storage baskets|storage basket|Home & Kitchen > Storage > Baskets|color,width|10|48
garden|shoe racks|shoe rack|Home & Kitchen > Storage > Racks|color,style|18|95
grocery|herbal teas|herbal tea|Grocery > Drinks > Tea|flavor name,pack|4|26
grocery|ground coffees|ground coffee|Grocery > Drinks > Coffee|flavor name,pack|6|38
grocery|granola bars|granola bar|Grocery > Snacks > Bars|flavor name,pack|5|24
grocery|roasted nuts|roasted nuts|Grocery > Snacks > Nuts|flavor name,weight|6|33
grocery|pasta sauces|pasta sauce|Grocery > Pantry > Sauces|flavor name,pack|4|22
grocery|fruit jams|fruit jam|Grocery > Pantry > Jams|flavor name,weight|4|19
"""


def _kind(line: str) -> Kind:
    family, query, name, place, options, low, high = line.split("|")
    return Kind(family, query, name, place.replace(" > ", " › "), tuple(options.split(",")), float(low), float(high))


KINDS = tuple(_kind(line) for line in _TABLE.strip().splitlines())
VALUES: dict[str, tuple[str, ...]] = {
    "color": ("black", "white", "red", "green", "navy blue", "pink", "purple", "yellow", "dark green", "brown"),
    "size": ("X-Small", "Small", "Medium", "Large", "X-Large", "XX-Large"),
    "shoe size": ("6", "7", "7.5", "8", "8.5", "9", "10", "11"),
    "scent": ("vanilla", "jasmine", "citrus", "fresh cotton", "sea salt", "unscented"),
    "volume": ("2 Ounce", "4 Ounce", "8 Ounce", "16 Ounce"),
    "pack": ("1 Pack", "2 Pack", "4 Pack", "6 Pack"),
    "length": ("3 Feet", "6 Feet", "10 Feet", "15 Feet"),
    "style": ("classic", "modern", "compact", "deluxe"),
    "screen": ("24 Inch", "27 Inch", "32 Inch"),
    "width": ("12 Inch", "18 Inch", "24 Inch", "36 Inch"),
    "weight": ("8 Ounce", "1 Pound", "2 Pound"),
    "flavor name": ("ginger", "honey", "hazelnut", "apple", "smoky", "original", "mixed berry"),
}
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "beauty": (
        *("cruelty free", "paraben free", "long lasting", "fragrance free", "natural ingredients", "dry skin"),
        *("sensitive skin", "tea tree", "coconut oil", "alcohol free"),
    ),
    "electronics": (
        *("fast charging", "high speed", "noise cancelling", "easy install", "water resistant", "heavy duty"),
        *("wireless connection", "high resolution", "quick release", "plug play"),
    ),
    "fashion": (
        *("machine wash", "quick drying", "slim fit", "elastic waist", "long sleeve", "rubber sole"),
        *("hand wash", "loose fit", "tumble dry", "day comfort"),
    ),
    "garden": (
        *("easy clean", "easy assemble", "space saving", "eco friendly", "solid wood", "double sided"),
        *("energy efficient", "living room", "faux leather", "high density"),
    ),
    "grocery": (
        *("gluten free", "non gmo", "sugar free", "low sodium", "plant based", "dairy free"),
        *("keto friendly", "high protein", "certified organic", "nut free"),
    ),
}
MATERIALS: dict[str, tuple[str, ...]] = {
    "beauty": ("botanical", "daily", "repairing", "gentle", "rich"),
    "electronics": ("braided", "portable", "folding", "slim", "studio"),
    "fashion": ("cotton", "linen", "fleece", "mesh", "wool"),
    "garden": ("bamboo", "velvet", "woven", "metal", "rustic"),
    "grocery": ("small batch", "crunchy", "farm", "stone ground", "spiced"),
}
STARTS = ("Bra", "Cor", "Del", "Fen", "Gal", "Hol", "Jun", "Kes", "Lum", "Mar", "Nor", "Pel", "Quin", "Sol", "Tav")
ENDS = ("ado", "beck", "dale", "essa", "ford", "ista", "ora", "ovik", "una", "wick")
