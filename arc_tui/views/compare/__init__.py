"""Two runs beside each other: what is said of them."""
