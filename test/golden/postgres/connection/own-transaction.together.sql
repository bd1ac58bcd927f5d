begin isolation level read committed; set local idle_in_transaction_session_timeout = 2000
