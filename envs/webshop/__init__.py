"""WebShop: an online store of text pages in which an agent searches, chooses options and buys."""

from sharpo.envs.webshop.env import WebShop

__all__ = ["WebShop"]
