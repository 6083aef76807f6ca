"""Every head of a model over HTTP, from one encoder pass."""
