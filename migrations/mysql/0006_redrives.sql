-- 0006 redrives: the records of redrives are collected, by age.
-- Safe to run again, also after an interruption: the index is only created if it does not exist.

set @txbox_step = (
  select case
    when exists (
      select 1 from information_schema.statistics as s
      where s.table_schema = database() and cast(s.table_name as binary) = cast(t.table_name as binary)
        and s.index_name = 'redrives_redriven_at'
    ) then 'do 0'
    else concat('create index redrives_redriven_at on `', replace(t.table_name, '`', '``'), '` (redriven_at)')
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
