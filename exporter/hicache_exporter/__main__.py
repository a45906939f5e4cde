from hicache_exporter.cli import main

main()
