"""Does an edit hold on every run of a class?"""
