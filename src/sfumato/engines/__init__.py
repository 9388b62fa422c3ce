"""Where a plan is carried out: in memory, from disk to disk, on a Spark cluster."""
