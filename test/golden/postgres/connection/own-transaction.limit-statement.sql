set local statement_timeout = 4500
