-- 0013 dedup_leases: the claims of sqlDedup, and of HTTP requests that are handled under a lease.
-- Safe to run again, also after an interruption. Processes of older versions need not know the table.

create table if not exists txbox_dedup_leases (
  -- When the lease ends; for a message that has been handled, when its retention ends.
  expires_at datetime(6) not null,
  -- When the message was handled; null while it is being handled.
  processed_at datetime(6),
  -- Identifies the owner of the lease.
  token binary(16) not null,
  consumer varbinary(400) not null,
  `key` varbinary(512) not null,
  result longtext,
  content_hash varbinary(32),
  primary key (consumer, `key`),
  -- For the collection of expired claims.
  key dedup_leases_expires_at (expires_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (13, 'dedup_leases', utc_timestamp(6))
  on duplicate key update title = 'dedup_leases';
