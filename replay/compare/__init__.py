"""Did it leave the road? Two actions compared, by rules that always hold and rules of the user."""
