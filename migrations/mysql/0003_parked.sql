-- 0003 parked: messages that may not go now. They were refused, wait behind one that was, are scheduled, or gave up.
-- Safe to run again, also after it broke off.

create table if not exists txbox_parked (
  -- Drawn as a message is parked: messages of one key go in the order of their places.
  place bigint unsigned not null auto_increment,
  created_at datetime(6) not null,
  -- When it is tried; null for one that waits behind another of its key, and for a dead letter.
  due_at datetime(6),
  -- When it gave up: a dead letter.
  dead_at datetime(6),
  -- Asked for by its producer: it has no place in the order of its key.
  deliver_at datetime(6),
  attempts int unsigned not null default 0,
  shard smallint unsigned not null,
  -- The key that it holds up; null when it holds up none: without a key, scheduled, or dead. Byte for byte, as the id.
  order_key varbinary(1020),
  id varbinary(1020) not null,
  topic varchar(255) not null,
  `key` varchar(255),
  type varchar(255),
  content_type varchar(255) not null,
  headers mediumtext not null,
  correlation_id varchar(255),
  trace_context text,
  -- Why it was refused last.
  error text,
  payload longblob not null,
  primary key (place),
  key parked_due (shard, due_at),
  key parked_order (shard, order_key, place),
  -- Dead letters: by age for their collection, by id for their list and for whoever puts one back.
  key parked_dead (dead_at),
  key parked_id (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

-- Who put which dead letter back, and when. Stays when the message has gone.
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
