"""Work that takes a while, as generators: commands drain them, workers post what they yield.

A generator that is closed stops where it is and leaves a valid database; run again, it goes on.
"""
