"""Running: the session, the queries in it, and what becomes of their records."""
