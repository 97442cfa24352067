"""What is measured: everything in this folder, and nothing else of the project, is copied into the guest image."""
