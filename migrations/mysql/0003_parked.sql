-- 0003 parked: messages that must not be published yet: refused ones, messages that wait behind a refused one of
-- their key, scheduled messages, and dead letters.
-- Safe to run again, also after an interruption.

create table if not exists txbox_parked (
  -- Assigned when a message is parked: messages of one key are published in the order of their places.
  place bigint unsigned not null auto_increment,
  created_at datetime(6) not null,
  -- When the message is tried; null if it waits behind another message of its key, and for a dead letter.
  due_at datetime(6),
  -- When the message became a dead letter.
  dead_at datetime(6),
  -- The time that the producer asked for; a scheduled message has no place in the order of its key.
  deliver_at datetime(6),
  attempts int unsigned not null default 0,
  shard smallint unsigned not null,
  -- The key that the message blocks; null for a message without a key, a scheduled message, and a dead letter. Compared
  -- byte for byte, like the id.
  order_key varbinary(1020),
  id varbinary(1020) not null,
  topic varchar(255) not null,
  `key` varchar(255),
  type varchar(255),
  content_type varchar(255) not null,
  headers mediumtext not null,
  correlation_id varchar(255),
  trace_context text,
  -- The error of the last attempt.
  error text,
  payload longblob not null,
  primary key (place),
  key parked_due (shard, due_at),
  key parked_order (shard, order_key, place),
  -- Dead letters: by age for the collection, by id for lists and redrives.
  key parked_dead (dead_at),
  key parked_id (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

-- Who redrove which dead letter, and when. A row stays when the message no longer exists.
create table if not exists txbox_redrives (
  redriven_at datetime(6) not null,
  dead_at datetime(6) not null,
  place bigint unsigned not null,
  attempts int unsigned not null,
  id varbinary(1020) not null,
  topic varchar(255) not null,
  `key` varchar(255),
  redriven_by varchar(255) not null,
  error text,
  primary key (id, redriven_at, place)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (3, 'parked', utc_timestamp(6))
  on duplicate key update title = 'parked';
