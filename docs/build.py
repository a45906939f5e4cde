"""Writes the pages and tables that are generated from the code; with --check only says whether they are current.

    python docs/build.py [--check] [--compatibility FOLDER] [--demo FOLDER]

``--compatibility``: what ``make matrix`` noted of each release; without it, the rows noted before are kept.
``--demo``: the folder that ``make demo`` wrote into; without it, its tables and picture in the pages stay.
"""

from generators.build import main

if __name__ == "__main__":
    main()
