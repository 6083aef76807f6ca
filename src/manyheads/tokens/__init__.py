"""Text → tokens, once; tokens → packed batches, with no padding."""
