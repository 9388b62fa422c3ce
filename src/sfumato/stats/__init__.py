"""Statistics that masks and measures share: design matrices, moments, covariances, laws."""
