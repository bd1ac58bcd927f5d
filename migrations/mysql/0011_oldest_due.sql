-- 0011 oldest_due: finds the message that has been due the longest: since it was stored, since the time that its producer asked
-- for, or since an operator put it back, whichever is the latest. `due_at` does not show this time, because each retry moves it.
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
    else concat('alter table `', replace(t.table_name, '`', '``'), '` add column redriven_at datetime(6)')
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
      'alter table `', replace(t.table_name, '`', '``'), '` add column due_since datetime(6) as (',
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
    else concat('create index parked_due_since on `', replace(t.table_name, '`', '``'), '` (due_since)')
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
    else concat('alter table `', replace(t.table_name, '`', '``'), '` add column redriven_at datetime(6)')
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
      'alter table `', replace(t.table_name, '`', '``'), '` add column due_since datetime(6) as (',
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
    else concat('create index queue_due_since on `', replace(t.table_name, '`', '``'), '` (due_since)')
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
