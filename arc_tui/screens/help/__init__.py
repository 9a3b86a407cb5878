"""What the keys do here."""
