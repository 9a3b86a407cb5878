"""The same question in other words: does the run break as before?"""
