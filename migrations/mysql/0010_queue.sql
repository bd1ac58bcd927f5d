-- 0010 queue: the messages of the stored queues. Rows of txbox_leases named 'queue/…' serve as the locks of a queue's shards.
-- Safe to run again, also after an interruption.

create table if not exists txbox_queue (
  -- Messages of one key are received in the order of their places.
  place bigint unsigned not null auto_increment,
  created_at datetime(6) not null,
  -- When the message is visible; null if it waits behind another message of its key, and for a dead letter. 1970-01-01 marks
  -- a message that has been handled, whose key has yet to go on.
  due_at datetime(6),
  -- When the message became a dead letter.
  dead_at datetime(6),
  -- The time that the sender asked for; a scheduled message has no place in the order of its key.
  deliver_at datetime(6),
  -- The number of receives.
  attempts int unsigned not null default 0,
  -- How often in a row the visibility timeout has passed without an answer.
  timeouts int unsigned not null default 0,
  shard smallint unsigned not null,
  -- The receive that has the message, until the message is visible again.
  receipt binary(16),
  -- Finds the messages of a key that have a receipt. Stored: the purge of an index on a virtual column is slow.
  flight tinyint unsigned as (if(receipt is null, null, 1)) stored,
  -- The name of the queue.
  topic varbinary(320) not null,
  -- The key in whose order the message has a place; null for a message without a key, a scheduled message, and a dead
  -- letter. Compared byte for byte, like the id.
  order_key varbinary(1020),
  id varbinary(1020) not null,
  `key` varchar(255),
  type varchar(255),
  content_type varchar(255) not null,
  headers mediumtext not null,
  correlation_id varchar(255),
  trace_context text,
  -- The error of the last attempt.
  error text,
  -- The last errors, as JSON.
  errors mediumtext,
  payload longblob not null,
  primary key (place),
  key queue_due (topic, shard, due_at),
  key queue_order (topic, shard, order_key, place),
  -- Not unique: a unique index would lock gaps between the messages of other keys.
  key queue_flight (topic, shard, flight, order_key),
  -- Dead letters: by age for the collection, by id for lists and redrives.
  key queue_dead (dead_at),
  key queue_id (topic, id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (10, 'queue', utc_timestamp(6))
  on duplicate key update title = 'queue';
