"""What a report shows of a document: one module for each kind."""
