"""Which tier served a prefix, proven from independent witnesses."""
