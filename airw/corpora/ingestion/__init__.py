"""Ingestion: from the items of a source to what a store holds of them."""
