"""The command line: one module for each subcommand, and the shell entry points beside them."""
