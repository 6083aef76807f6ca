"""A run, a study or a comparison as one page: report.html, self-contained."""
