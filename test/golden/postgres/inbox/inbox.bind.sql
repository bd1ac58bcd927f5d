select pg_catalog.current_setting('lock_timeout') as before, pg_catalog.set_config('lock_timeout', $1, true) as bound
