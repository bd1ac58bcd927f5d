-- 0012 local: the messages of local consumers, one row for each subscriber; which consumer gets which types; and what
-- operators have removed. Rows of txbox_leases named 'local/…' are the leases of a consumer's shards.
-- Safe to run again, also after an interruption. Processes of older versions need not know the tables.

-- Rows are inserted and deleted, never updated.
create table if not exists txbox_local_outbox (
  seq bigint unsigned not null auto_increment,
  created_at datetime(6) not null,
  shard smallint unsigned not null,
  consumer varbinary(100) not null,
  id varchar(255) not null,
  -- Where a relay publishes the same message; null if it has only local consumers.
  topic varchar(255),
  `key` varchar(255),
  type varchar(255),
  content_type varchar(255) not null,
  headers mediumtext not null,
  correlation_id varchar(255),
  trace_context text,
  payload longblob not null,
  primary key (consumer, shard, seq),
  -- An AUTO_INCREMENT column must be the first column of an index.
  key local_outbox_seq (seq)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

-- Messages that must not be handled yet: those that are tried again, those that wait behind such a message of their key,
-- scheduled messages, and dead letters.
create table if not exists txbox_local_parked (
  -- Assigned when a message is parked: messages of one key are handled in the order of their places.
  place bigint unsigned not null auto_increment,
  created_at datetime(6) not null,
  -- When the message is tried; null if it waits behind another message of its key, and for a dead letter.
  due_at datetime(6),
  -- When the message became a dead letter.
  dead_at datetime(6),
  -- The time that the producer asked for; a scheduled message has no place in the order of its key.
  deliver_at datetime(6),
  -- When an operator last put the message back.
  redriven_at datetime(6),
  -- Since when the message has been due; null for a dead letter.
  due_since datetime(6) as (
    if(dead_at is null, greatest(created_at, coalesce(deliver_at, created_at), coalesce(redriven_at, created_at)), null)
  ) virtual,
  attempts int unsigned not null default 0,
  shard smallint unsigned not null,
  -- Whether the message was in flight at two deaths in a row, and is tried alone.
  suspect tinyint unsigned not null default 0,
  -- Whether the consumer has no handler for the type of the message. No attempt is counted then.
  unhandled tinyint unsigned not null default 0,
  consumer varbinary(100) not null,
  -- The key that the message blocks; null for a message without a key, a scheduled message, and a dead letter. Compared
  -- byte for byte, like the id.
  order_key varbinary(1020),
  id varbinary(1020) not null,
  topic varchar(255),
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
  key local_parked_due (consumer, shard, due_at),
  key local_parked_order (consumer, shard, order_key, place),
  key local_parked_suspect (consumer, shard, suspect, due_at),
  key local_parked_unhandled (consumer, unhandled),
  key local_parked_due_since (consumer, due_since),
  -- Dead letters: by age for the collection, by id for lists and redrives.
  key local_parked_dead (dead_at),
  key local_parked_id (id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

-- Which consumer gets the messages of which type. Compared byte for byte.
create table if not exists txbox_subscriptions (
  registered_at datetime(6) not null,
  type varbinary(1020) not null,
  consumer varbinary(100) not null,
  primary key (type, consumer)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

-- Who ended which subscriptions, and when.
create table if not exists txbox_removals (
  number bigint unsigned not null auto_increment,
  removed_at datetime(6) not null,
  -- The number of messages that were discarded.
  discarded bigint unsigned not null,
  consumer varbinary(100) not null,
  -- null: all types.
  type varbinary(1020),
  removed_by varchar(255) not null,
  primary key (number),
  key removals_removed_at (removed_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

-- consumer: the local consumer at which the message was a dead letter; null for the other dead letters.
set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.columns as c
      where c.table_schema = database() and cast(c.table_name as binary) = cast(t.table_name as binary)
        and c.column_name = 'consumer'
    ) then 'do 0'
    else concat('alter table `', replace(t.table_name, '`', '``'), '` add column consumer varbinary(100)')
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_redrives'
  -- Some servers compare names without case here, but with case in the names of tables.
  order by cast(t.table_name as binary) = cast('txbox_redrives' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

insert into txbox_migrations (number, title, applied_at) values (12, 'local', utc_timestamp(6))
  on duplicate key update title = 'local';
