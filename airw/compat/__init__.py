"""The names of other libraries, for programs written for `ir` and graph-retriever."""
