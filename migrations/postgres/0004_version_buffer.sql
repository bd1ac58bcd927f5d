-- 0004 version_buffer: how far each key has come, and the messages that wait for the one before them.
-- Safe to run again.

create table if not exists txbox.versions (
  version bigint not null,
  -- How many messages of the key wait: while it is 0, nobody looks for them.
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
  -- When it was given up: a dead letter, kept until it is redriven or discarded.
  dead_at timestamptz,
  consumer text collate "C" not null,
  key text collate "C" not null,
  -- What its versions were in the program: number, bigint or string.
  kind text not null,
  reason text,
  payload text not null,
  primary key (consumer, key, from_version)
);

create index if not exists waiting_received_at on txbox.waiting (consumer, received_at) where dead_at is null;
create index if not exists waiting_dead on txbox.waiting (consumer, key, from_version) where dead_at is not null;

insert into txbox.migrations (number, title) values (4, 'version_buffer') on conflict (number) do nothing;
