"""Draws every board from the data of a running Prometheus."""

from hicache_dashboards.pictures.command import main

if __name__ == "__main__":
    main()
