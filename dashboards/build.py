"""Writes everything that is generated from the dashboards package; with --check only says whether it is current."""

from hicache_dashboards.build import main

if __name__ == "__main__":
    main()
