"""`python -m arc_tui` is `arc`."""

from arc_tui.commands import main

if __name__ == "__main__":
    main()
