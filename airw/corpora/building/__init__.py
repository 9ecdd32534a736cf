"""Building: from a source to an open corpus, incrementally, in one go or in partitions."""
