"""Accumulation windows as a picture: plain data, and the page that draws it. Knows nothing of where it comes from."""
