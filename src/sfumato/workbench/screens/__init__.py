"""What each of the six screens shows, as plain values for its template."""
