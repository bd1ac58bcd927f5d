select pg_catalog.set_config('lock_timeout', $1, true) as bound
