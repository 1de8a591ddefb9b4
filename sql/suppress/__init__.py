"""What both functions of suppress share, in batch and on a stream."""
