"""What a call is: its parts as every door delivers them, what a SPEC says of them, and how one is bound to the other."""
