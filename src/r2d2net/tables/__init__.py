"""A CSV or Parquet file to a fitted network and back: what `r2d2net fit | predict | evaluate | inspect` do."""
