"""Other libraries' data as corpora of airw; one module per library."""
