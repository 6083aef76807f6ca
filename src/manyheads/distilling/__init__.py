"""Single-task teachers, and the student of them."""
