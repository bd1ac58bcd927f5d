select case
  when pg_catalog.current_setting('max_prepared_transactions') <> '0' then 'prepared transactions'
  when pg_catalog.current_setting('lock_timeout') <> '0' then 'lock timeout'
  when pg_catalog.pg_notification_queue_usage() >= 0.5::double precision then 'full queue'
  else (
    select pg_catalog.count(pg_catalog.pg_notify(given.channel, given.payload))::text
    from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) as given (channel, payload)
  )
end as answer
