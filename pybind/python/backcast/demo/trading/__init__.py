"""World of the demo in which agents trade in simulated markets."""
