-- 0007 crashes: the messages that were in flight when a relay died, and the messages that may have killed it.
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
      'alter table `', replace(t.table_name, '`', '``'), '` add column crashes int unsigned not null default 0, ',
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
      'alter table `', replace(t.table_name, '`', '``'), '` add column suspect tinyint unsigned not null default 0, ',
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
