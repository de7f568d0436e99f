"""WebShop: an online store of text pages in which an agent searches, chooses options and buys."""
