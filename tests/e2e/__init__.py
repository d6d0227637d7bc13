"""The whole product as a site runs it: real Slurm, PostgreSQL or SQLite, Redis, Celery, web server and browser."""
