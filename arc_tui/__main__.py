"""`python -m arc_tui` is `arc`."""

from arc_tui.cli import main

if __name__ == "__main__":
    main()
