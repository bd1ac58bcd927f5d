-- 0004 version_buffer: the version that each key has reached, and the messages that wait for their predecessors.
-- Safe to run again.

create table if not exists txbox.versions (
  version bigint not null,
  -- The number of waiting messages of the key: while it is 0, they are not read.
  waiting integer not null default 0,
  consumer text collate "C" not null,
  key text collate "C" not null,
  primary key (consumer, key)
)
with (fillfactor = 50);

create table if not exists txbox.waiting (
  from_version bigint not null,
  to_version bigint not null,
  received_at timestamptz not null default pg_catalog.clock_timestamp(),
  -- When the message became a dead letter, which is kept until it is redriven or discarded.
  dead_at timestamptz,
  consumer text collate "C" not null,
  key text collate "C" not null,
  -- The type of the versions in the program: number, bigint or string.
  kind text not null,
  reason text,
  payload text not null,
  primary key (consumer, key, from_version)
);

create index if not exists waiting_received_at on txbox.waiting (consumer, received_at) where dead_at is null;
create index if not exists waiting_dead on txbox.waiting (consumer, key, from_version) where dead_at is not null;

insert into txbox.migrations (number, title) values (4, 'version_buffer') on conflict (number) do nothing;
