-- 0004 version_buffer: the version that each key has reached, and the messages that wait for their predecessors.
-- Safe to run again, also after an interruption.

create table if not exists txbox_versions (
  version bigint not null,
  -- The number of waiting messages of the key: while it is 0, they are not read.
  waiting int unsigned not null default 0,
  consumer varbinary(400) not null,
  `key` varbinary(1020) not null,
  primary key (consumer, `key`)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

create table if not exists txbox_waiting (
  from_version bigint not null,
  to_version bigint not null,
  received_at datetime(6) not null,
  -- When the message became a dead letter, which is kept until it is redriven or discarded.
  dead_at datetime(6),
  consumer varbinary(400) not null,
  `key` varbinary(1020) not null,
  -- The type of the versions in the program: number, bigint or string.
  kind varchar(10) not null,
  reason varchar(20),
  payload longblob not null,
  primary key (consumer, `key`, from_version),
  key waiting_received_at (consumer, dead_at, received_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (4, 'version_buffer', utc_timestamp(6))
  on duplicate key update title = 'version_buffer';
