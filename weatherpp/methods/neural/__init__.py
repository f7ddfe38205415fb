"""Neural post-processing. Importing this package stays light: torch comes with the modules."""
