"""Studies: a base recipe, named variants, seeds; runs that are never repeated; tables that say what is real."""
