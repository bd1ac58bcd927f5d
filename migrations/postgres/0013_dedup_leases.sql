-- 0013 dedup_leases: the claims of sqlDedup, and of HTTP requests that are handled under a lease.
-- Safe to run again. Processes of older versions need not know the table.

create table if not exists txbox.dedup_leases (
  -- When the lease ends; for a message that has been handled, when its retention ends.
  expires_at timestamptz not null,
  -- When the message was handled; null while it is being handled.
  processed_at timestamptz,
  -- Identifies the owner of the lease.
  token uuid not null,
  consumer text collate "C" not null,
  key text collate "C" not null,
  result text,
  content_hash bytea,
  primary key (consumer, key)
);

-- For the collection of expired claims.
create index if not exists dedup_leases_expires_at on txbox.dedup_leases (expires_at);

insert into txbox.migrations (number, title) values (13, 'dedup_leases') on conflict (number) do nothing;
