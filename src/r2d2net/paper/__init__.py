"""Everything that exists only to reproduce the paper; the core never imports it."""
