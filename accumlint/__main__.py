"""`python -m accumlint`."""

from accumlint.cli.main import main

if __name__ == "__main__":
    main()
