SET LOCAL statement_timeout = 4500
