-- 0007 crashes: the messages that were in flight when a relay died, and the messages that may have killed it.
-- Safe to run again.

alter table txbox.leases
  -- The number of owners in a row that died, or were cut off, before their messages in flight were settled.
  add column if not exists crashes integer not null default 0,
  -- The messages that the owner has in flight, as the relay records them.
  add column if not exists in_flight text;

alter table txbox.parked
  -- Whether the message was in flight at two deaths in a row: then it is tried alone.
  add column if not exists suspect boolean not null default false,
  -- The last errors, as JSON.
  add column if not exists errors text;

create index if not exists parked_suspect on txbox.parked (shard, due_at) where suspect and due_at is not null;

insert into txbox.migrations (number, title) values (7, 'crashes') on conflict (number) do nothing;
