"""Pages and pictures made from measurements."""
