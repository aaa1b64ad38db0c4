"""Following: what a replica does while another broker leads its partition."""
