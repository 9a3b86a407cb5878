"""The app in a browser of this machine: who is let in, what the page is, and the process of a tab.

The page's terminal and its fonts are those of the package `textual-serve`, whose files are read
and whose server is not used: it asks nobody who they are, loads a font from elsewhere, and
starts its apps by a shell.
"""
