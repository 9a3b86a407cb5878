"""One change at a time, to tell a symptom's causes apart."""
