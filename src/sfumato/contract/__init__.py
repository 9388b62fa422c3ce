"""What a mask, a measure, a guarantee, a parameter and a result are."""
