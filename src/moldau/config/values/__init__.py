"""What holds: settings parsed, in layers, checked against each other."""
