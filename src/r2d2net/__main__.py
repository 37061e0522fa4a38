"""`python -m r2d2net`: the command `r2d2net`, where it is not on the path."""

from r2d2net.cli import main

if __name__ == "__main__":
    main()
