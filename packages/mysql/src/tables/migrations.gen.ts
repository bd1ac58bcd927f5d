// Made from migrations/mysql by scripts/generate-migrations.mjs. Do not edit.

/** Every migration, oldest first, with the default names. */
export const MIGRATIONS: readonly { readonly number: number; readonly name: string; readonly sql: string }[] = [
  {
    number: 1,
    name: '0001_inbox',
    sql: `-- 0001 inbox: one small row per claim. Its primary key detects duplicates.
-- Safe to run again, also after an interruption: every CREATE TABLE commits by itself on MySQL and MariaDB.

create table if not exists txbox_migrations (
  number int unsigned not null,
  title varchar(255) not null,
  applied_at datetime(6) not null,
  primary key (number)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- varbinary: keys are compared byte for byte. utf8mb4_bin is not suitable, because it pads with spaces.
create table if not exists txbox_inbox (
  processed_at datetime(6) not null,
  expires_at datetime(6) not null,
  consumer varbinary(400) not null,
  \`key\` varbinary(512) not null,
  correlation_id varchar(255),
  result longtext,
  content_hash varbinary(32),
  -- Identifies the last writer of the row, when many keys are claimed at once.
  claim_token binary(16),
  primary key (consumer, \`key\`),
  -- For the collection of expired claims.
  key inbox_expires_at (expires_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (1, 'inbox', utc_timestamp(6))
  on duplicate key update title = 'inbox';
`,
  },
  {
    number: 2,
    name: '0002_outbox',
    sql: `-- 0002 outbox: messages to publish, and the leases of the relays.
-- Safe to run again, also after an interruption. Rows are inserted and deleted, never updated.

create table if not exists txbox_outbox (
  seq bigint unsigned not null auto_increment,
  created_at datetime(6) not null,
  shard smallint unsigned not null,
  id varchar(255) not null,
  topic varchar(255) not null,
  \`key\` varchar(255),
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
`,
  },
  {
    number: 3,
    name: '0003_parked',
    sql: `-- 0003 parked: messages that must not be published yet: refused ones, messages that wait behind a refused one of
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
  \`key\` varchar(255),
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
  \`key\` varchar(255),
  redriven_by varchar(255) not null,
  error text,
  primary key (id, redriven_at, place)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (3, 'parked', utc_timestamp(6))
  on duplicate key update title = 'parked';
`,
  },
  {
    number: 4,
    name: '0004_version_buffer',
    sql: `-- 0004 version_buffer: the version that each key has reached, and the messages that wait for their predecessors.
-- Safe to run again, also after an interruption.

create table if not exists txbox_versions (
  version bigint not null,
  -- The number of waiting messages of the key: while it is 0, they are not read.
  waiting int unsigned not null default 0,
  consumer varbinary(400) not null,
  \`key\` varbinary(1020) not null,
  primary key (consumer, \`key\`)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

create table if not exists txbox_waiting (
  from_version bigint not null,
  to_version bigint not null,
  received_at datetime(6) not null,
  -- When the message became a dead letter, which is kept until it is redriven or discarded.
  dead_at datetime(6),
  consumer varbinary(400) not null,
  \`key\` varbinary(1020) not null,
  -- The type of the versions in the program: number, bigint or string.
  kind varchar(10) not null,
  reason varchar(20),
  payload longblob not null,
  primary key (consumer, \`key\`, from_version),
  key waiting_received_at (consumer, dead_at, received_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (4, 'version_buffer', utc_timestamp(6))
  on duplicate key update title = 'version_buffer';
`,
  },
  {
    number: 5,
    name: '0005_collections',
    sql: `-- 0005 collections: what the last garbage collection removed, and when.
-- Safe to run again, also after an interruption. There is one row; a collector that finds it locked skips it.

create table if not exists txbox_collections (
  id tinyint unsigned not null,
  finished_at datetime(6),
  inbox bigint unsigned,
  dead_letters bigint unsigned,
  duration_ms bigint unsigned,
  primary key (id)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_collections (id) values (1) on duplicate key update id = 1;

insert into txbox_migrations (number, title, applied_at) values (5, 'collections', utc_timestamp(6))
  on duplicate key update title = 'collections';
`,
  },
  {
    number: 6,
    name: '0006_redrives',
    sql: `-- 0006 redrives: the records of redrives are collected, by age.
-- Safe to run again, also after an interruption: the index is only created if it does not exist.

set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.statistics as s
      where s.table_schema = database() and cast(s.table_name as binary) = cast(t.table_name as binary)
        and s.index_name = 'redrives_redriven_at'
    ) then 'do 0'
    else concat('create index redrives_redriven_at on \`', replace(t.table_name, '\`', '\`\`'), '\` (redriven_at)')
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

insert into txbox_migrations (number, title, applied_at) values (6, 'redrives', utc_timestamp(6))
  on duplicate key update title = 'redrives';
`,
  },
  {
    number: 7,
    name: '0007_crashes',
    sql: `-- 0007 crashes: the messages that were in flight when a relay died, and the messages that may have killed it.
-- Safe to run again, also after an interruption: each table is only changed if its columns are missing.

-- crashes: the number of owners in a row that died, or were cut off, before their messages in flight were settled.
-- in_flight: the messages that the owner has in flight, as the relay records them.
set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.columns as c
      where c.table_schema = database() and cast(c.table_name as binary) = cast(t.table_name as binary)
        and c.column_name = 'in_flight'
    ) then 'do 0'
    else concat(
      'alter table \`', replace(t.table_name, '\`', '\`\`'), '\` add column crashes int unsigned not null default 0, ',
      'add column in_flight mediumtext'
    )
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_leases'
  -- Some servers compare names without case here, but with case in the names of tables.
  order by cast(t.table_name as binary) = cast('txbox_leases' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

-- suspect: whether the message was in flight at two deaths in a row, and is tried alone.
-- errors: the last errors, as JSON.
set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.columns as c
      where c.table_schema = database() and cast(c.table_name as binary) = cast(t.table_name as binary)
        and c.column_name = 'suspect'
    ) then 'do 0'
    else concat(
      'alter table \`', replace(t.table_name, '\`', '\`\`'), '\` add column suspect tinyint unsigned not null default 0, ',
      'add column errors mediumtext, add key parked_suspect (shard, suspect, due_at)'
    )
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_parked'
  order by cast(t.table_name as binary) = cast('txbox_parked' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

insert into txbox_migrations (number, title, applied_at) values (7, 'crashes', utc_timestamp(6))
  on duplicate key update title = 'crashes';
`,
  },
  {
    number: 8,
    name: '0008_buffered_dead_letters',
    sql: `-- 0008 buffered_dead_letters: the dead letters of version buffers are collected, by age.
-- Safe to run again, also after an interruption: the index is only created if it does not exist.

set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.statistics as s
      where s.table_schema = database() and cast(s.table_name as binary) = cast(t.table_name as binary)
        and s.index_name = 'waiting_dead_at'
    ) then 'do 0'
    else concat('create index waiting_dead_at on \`', replace(t.table_name, '\`', '\`\`'), '\` (dead_at)')
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_waiting'
  -- Some servers compare names without case here, but with case in the names of tables.
  order by cast(t.table_name as binary) = cast('txbox_waiting' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

insert into txbox_migrations (number, title, applied_at) values (8, 'buffered_dead_letters', utc_timestamp(6))
  on duplicate key update title = 'buffered_dead_letters';
`,
  },
  {
    number: 9,
    name: '0009_key_locks',
    sql: `-- 0009 key_locks: rows that an outbox with lockKeys locks, so that messages of a key get their numbers in the order of the
-- commits.
-- Safe to run again, also after it broke off, and when rows are missing.

create table if not exists txbox_key_locks (
  -- 0 to 16383: the hash of a key decides its row. The rows are locked and never changed.
  number smallint unsigned not null,
  primary key (number)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_key_locks (number)
with digits (n) as (
  select 0 union all select 1 union all select 2 union all select 3 union all select 4 union all select 5 union all select 6
  union all select 7 union all select 8 union all select 9 union all select 10 union all select 11 union all select 12
  union all select 13 union all select 14 union all select 15
)
select a.n + 16 * b.n + 256 * c.n + 4096 * d.n
from digits as a cross join digits as b cross join digits as c cross join digits as d
where d.n < 4
-- In the order in which publishers lock.
order by a.n + 16 * b.n + 256 * c.n + 4096 * d.n
on duplicate key update number = txbox_key_locks.number;

insert into txbox_migrations (number, title, applied_at) values (9, 'key_locks', utc_timestamp(6))
  on duplicate key update title = 'key_locks';
`,
  },
  {
    number: 10,
    name: '0010_queue',
    sql: `-- 0010 queue: the messages of the stored queues. Rows of txbox_leases named 'queue/…' serve as the locks of a queue's shards.
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
  \`key\` varchar(255),
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
`,
  },
  {
    number: 11,
    name: '0011_oldest_due',
    sql: `-- 0011 oldest_due: finds the message that has been due the longest: since it was stored, since the time that its producer asked
-- for, or since an operator put it back, whichever is the latest. \`due_at\` does not show this time, because each retry moves it.
-- Safe to run again, also after an interruption: columns and indexes are only created if they are missing. Writers of older
-- versions need not know the columns. Each step is a statement of its own: MariaDB copies the whole table, and lets nobody write
-- meanwhile, if a statement adds a virtual column and another one.

-- redriven_at: when an operator last put the message back.
-- due_since: since when the message has been due; null for a dead letter. Virtual, so that the rows are not rewritten.
set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.columns as c
      where c.table_schema = database() and cast(c.table_name as binary) = cast(t.table_name as binary)
        and c.column_name = 'redriven_at'
    ) then 'do 0'
    else concat('alter table \`', replace(t.table_name, '\`', '\`\`'), '\` add column redriven_at datetime(6)')
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_parked'
  -- Some servers compare names without case here, but with case in the names of tables.
  order by cast(t.table_name as binary) = cast('txbox_parked' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.columns as c
      where c.table_schema = database() and cast(c.table_name as binary) = cast(t.table_name as binary)
        and c.column_name = 'due_since'
    ) then 'do 0'
    else concat(
      'alter table \`', replace(t.table_name, '\`', '\`\`'), '\` add column due_since datetime(6) as (',
      'if(dead_at is null, greatest(created_at, coalesce(deliver_at, created_at), coalesce(redriven_at, created_at)), null)) virtual'
    )
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_parked'
  order by cast(t.table_name as binary) = cast('txbox_parked' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.statistics as s
      where s.table_schema = database() and cast(s.table_name as binary) = cast(t.table_name as binary)
        and s.index_name = 'parked_due_since'
    ) then 'do 0'
    else concat('create index parked_due_since on \`', replace(t.table_name, '\`', '\`\`'), '\` (due_since)')
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_parked'
  order by cast(t.table_name as binary) = cast('txbox_parked' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.columns as c
      where c.table_schema = database() and cast(c.table_name as binary) = cast(t.table_name as binary)
        and c.column_name = 'redriven_at'
    ) then 'do 0'
    else concat('alter table \`', replace(t.table_name, '\`', '\`\`'), '\` add column redriven_at datetime(6)')
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_queue'
  order by cast(t.table_name as binary) = cast('txbox_queue' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.columns as c
      where c.table_schema = database() and cast(c.table_name as binary) = cast(t.table_name as binary)
        and c.column_name = 'due_since'
    ) then 'do 0'
    else concat(
      'alter table \`', replace(t.table_name, '\`', '\`\`'), '\` add column due_since datetime(6) as (',
      'if(dead_at is null, greatest(created_at, coalesce(deliver_at, created_at), coalesce(redriven_at, created_at)), null)) virtual'
    )
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_queue'
  order by cast(t.table_name as binary) = cast('txbox_queue' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.statistics as s
      where s.table_schema = database() and cast(s.table_name as binary) = cast(t.table_name as binary)
        and s.index_name = 'queue_due_since'
    ) then 'do 0'
    else concat('create index queue_due_since on \`', replace(t.table_name, '\`', '\`\`'), '\` (due_since)')
  end
  from information_schema.tables as t
  where t.table_schema = database() and t.table_name = 'txbox_queue'
  order by cast(t.table_name as binary) = cast('txbox_queue' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

insert into txbox_migrations (number, title, applied_at) values (11, 'oldest_due', utc_timestamp(6))
  on duplicate key update title = 'oldest_due';
`,
  },
  {
    number: 12,
    name: '0012_local',
    sql: `-- 0012 local: the messages of local consumers, one row for each subscriber; which consumer gets which types; and what
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
  \`key\` varchar(255),
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
  \`key\` varchar(255),
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
    else concat('alter table \`', replace(t.table_name, '\`', '\`\`'), '\` add column consumer varbinary(100)')
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
`,
  },
  {
    number: 13,
    name: '0013_dedup_leases',
    sql: `-- 0013 dedup_leases: the claims of sqlDedup, and of HTTP requests that are handled under a lease.
-- Safe to run again, also after an interruption. Processes of older versions need not know the table.

create table if not exists txbox_dedup_leases (
  -- When the lease ends; for a message that has been handled, when its retention ends.
  expires_at datetime(6) not null,
  -- When the message was handled; null while it is being handled.
  processed_at datetime(6),
  -- Identifies the owner of the lease.
  token binary(16) not null,
  consumer varbinary(400) not null,
  \`key\` varbinary(512) not null,
  result longtext,
  content_hash varbinary(32),
  primary key (consumer, \`key\`),
  -- For the collection of expired claims.
  key dedup_leases_expires_at (expires_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

insert into txbox_migrations (number, title, applied_at) values (13, 'dedup_leases', utc_timestamp(6))
  on duplicate key update title = 'dedup_leases';
`,
  },
]
