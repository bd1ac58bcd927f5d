-- 0007 crashes: what was in flight when a relay died, and which messages may have killed it.
-- Safe to run again.

alter table txbox.leases
  -- How many owners in a row died, or were cut off, before what they had in flight was through.
  add column if not exists crashes integer not null default 0,
  -- What the owner has in flight, as the relay notes it.
  add column if not exists in_flight text;

alter table txbox.parked
  -- It was in flight at two deaths in a row: it is tried alone.
  add column if not exists suspect boolean not null default false,
  -- The last errors, as JSON.
  add column if not exists errors text;

create index if not exists parked_suspect on txbox.parked (shard, due_at) where suspect and due_at is not null;

insert into txbox.migrations (number, title) values (7, 'crashes') on conflict (number) do nothing;
