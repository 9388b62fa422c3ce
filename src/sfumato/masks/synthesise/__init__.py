"""Sequential synthesis from trees."""
