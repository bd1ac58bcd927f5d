select exists (
  select from pg_catalog.pg_listening_channels() as c (name) where c.name = 'txbox_outbox_1'
)::text as listening
