"""Names for those who come from elsewhere: `airw.compat.ir` and `airw.compat.graph_retriever`."""
