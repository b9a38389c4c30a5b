"""The robot's side of an oatkit server. The client itself arrives with the server."""
