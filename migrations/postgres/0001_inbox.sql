-- 0001 inbox: one small row per claim. Its primary key detects duplicates.
-- Safe to run again. CREATE SCHEMA needs the right to create one, even where the schema exists: then leave the statement out.

create schema if not exists txbox;

create table if not exists txbox.migrations (
  number integer primary key,
  title text not null,
  applied_at timestamptz not null default pg_catalog.clock_timestamp()
);

create table if not exists txbox.inbox (
  processed_at timestamptz not null,
  expires_at timestamptz not null,
  consumer text collate "C" not null,
  key text collate "C" not null,
  correlation_id text,
  result text,
  content_hash bytea,
  primary key (consumer, key)
);

-- For the collection of expired claims.
create index if not exists inbox_expires_at on txbox.inbox (expires_at);

insert into txbox.migrations (number, title) values (1, 'inbox') on conflict (number) do nothing;
