"""Files as sfumato sees them: columns, what they are, codes, rules, hierarchies."""
