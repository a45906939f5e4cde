"""Writes the pages and tables that are generated from the code; with --check only says whether they are current.

    python docs/build.py [--check] [--compatibility FOLDER]

FOLDER holds what ``make matrix`` noted of each release; without it, the rows noted before are kept.
"""

from generators.build import main

if __name__ == "__main__":
    main()
