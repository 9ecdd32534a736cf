"""Named corpora: how each is made, kept in one file, built again when due."""
