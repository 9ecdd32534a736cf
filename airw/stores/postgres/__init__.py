"""A store on a PostgreSQL server."""
