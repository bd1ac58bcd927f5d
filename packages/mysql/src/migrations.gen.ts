// Made from migrations/mysql by scripts/generate-migrations.mjs. Do not edit.

/** Every migration, oldest first, with the default names. */
export const MIGRATIONS: readonly { readonly number: number; readonly name: string; readonly sql: string }[] = [
  {
    number: 1,
    name: '0001_inbox',
    sql: `-- 0001 inbox: one small row a claim. Its primary key is the dedup check.
-- Safe to run again, also after it broke off: every CREATE TABLE commits by itself on MySQL and MariaDB.

create table if not exists txbox_migrations (
  number int unsigned not null,
  title varchar(255) not null,
  applied_at datetime(6) not null,
  primary key (number)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin;

-- varbinary: keys compare byte for byte. utf8mb4_bin would not do: it pads spaces.
create table if not exists txbox_inbox (
  processed_at datetime(6) not null,
  expires_at datetime(6) not null,
  consumer varbinary(400) not null,
  \`key\` varbinary(512) not null,
  correlation_id varchar(255),
  result longtext,
  content_hash varbinary(32),
  -- Who wrote the row last, where many are claimed at once.
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
    sql: `-- 0002 outbox: messages on their way out, and the leases of those who relay them.
-- Safe to run again, also after it broke off. Rows are inserted and deleted, never updated.

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
  -- An AUTO_INCREMENT must lead an index.
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
    sql: `-- 0003 parked: messages that may not go now. They were refused, wait behind one that was, are scheduled, or gave up.
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
  \`key\` varchar(255),
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
    sql: `-- 0004 version_buffer: how far each key has come, and the messages that wait for the one before them.
-- Safe to run again, also after it broke off.

create table if not exists txbox_versions (
  version bigint not null,
  -- How many messages of the key wait: while it is 0, nobody looks for them.
  waiting int unsigned not null default 0,
  consumer varbinary(400) not null,
  \`key\` varbinary(1020) not null,
  primary key (consumer, \`key\`)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin;

create table if not exists txbox_waiting (
  from_version bigint not null,
  to_version bigint not null,
  received_at datetime(6) not null,
  -- When it was given up: a dead letter, kept until it is redriven or discarded.
  dead_at datetime(6),
  consumer varbinary(400) not null,
  \`key\` varbinary(1020) not null,
  -- What its versions were in the program: number, bigint or string.
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
-- Safe to run again, also after it broke off. One row, which a collector that finds it locked leaves alone.

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
-- Safe to run again, also after it broke off: the index is only made where there is none.

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
  -- Some servers do not tell capitals from small letters here, but do in names of tables.
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
    sql: `-- 0007 crashes: what was in flight when a relay died, and which messages may have killed it.
-- Safe to run again, also after it broke off: each table is only changed where its columns are missing.

-- crashes: how many owners in a row died, or were cut off, before what they had in flight was through.
-- in_flight: what the owner has in flight, as the relay notes it.
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
  -- Some servers do not tell capitals from small letters here, but do in names of tables.
  order by cast(t.table_name as binary) = cast('txbox_leases' as binary) desc
  limit 1
);
prepare txbox_step from @txbox_step;
execute txbox_step;
deallocate prepare txbox_step;

-- suspect: it was in flight at two deaths in a row, and is tried alone.
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
-- Safe to run again, also after it broke off: the index is only made where there is none.

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
  -- Some servers do not tell capitals from small letters here, but do in names of tables.
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
]
