"""What is wrong with data."""
