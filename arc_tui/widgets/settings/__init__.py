"""The lists of the settings screen."""
