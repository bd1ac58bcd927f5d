-- 0002 outbox: messages to publish, and the leases of the relays.
-- Safe to run again, also after an interruption. Rows are inserted and deleted, never updated.

create table if not exists txbox_outbox (
  seq bigint unsigned not null auto_increment,
  created_at datetime(6) not null,
  shard smallint unsigned not null,
  id varchar(255) not null,
  topic varchar(255) not null,
  `key` varchar(255),
  type varchar(255),
  content_type varchar(255) not null,
  headers mediumtext not null,
  correlation_id varchar(255),
  trace_context text,
  payload longblob not null,
  primary key (shard, seq),
  -- An AUTO_INCREMENT column must be the first column of an index.
  key outbox_seq (seq)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

create table if not exists txbox_leases (
  term bigint unsigned not null default 0,
  expires_at datetime(6),
  name varbinary(255) not null,
  owner varbinary(1020),
  primary key (name)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (2, 'outbox', utc_timestamp(6))
  on duplicate key update title = 'outbox';
