"""The machinery of record linkage that attacks and masks share: fields, blocks, weights, assignment."""
