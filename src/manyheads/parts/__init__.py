"""Everything a recipe can name: a folder per family, a file per part."""
