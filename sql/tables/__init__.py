"""What Delta tables say of themselves: declarations, marks of deletion, change data, commits. All of it is data, and runs nothing."""
