"""What `sfumato init` proposes: roles, codes, sums, a first plan."""
