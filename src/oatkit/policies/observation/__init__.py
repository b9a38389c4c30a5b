"""What a policy observes, checked and made into tensors."""
