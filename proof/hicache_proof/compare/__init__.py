"""``hicache-witness compare``: two results of the lab, or two certificates, side by side."""
