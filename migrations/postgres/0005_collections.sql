-- 0005 collections: what the last garbage collection removed, and when.
-- Safe to run again. There is one row; a collector that finds it locked skips it.

create table if not exists txbox.collections (
  id smallint primary key check (id = 1),
  finished_at timestamptz,
  inbox bigint,
  dead_letters bigint,
  duration_ms bigint
)
with (fillfactor = 50);

insert into txbox.collections (id) values (1) on conflict (id) do nothing;

insert into txbox.migrations (number, title) values (5, 'collections') on conflict (number) do nothing;
