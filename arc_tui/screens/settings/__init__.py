"""What a person has set."""
