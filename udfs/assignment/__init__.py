"""Who runs what: tasks over members, in as few moves as may be."""
