from hicache_dashboards.session.command import main

main()
