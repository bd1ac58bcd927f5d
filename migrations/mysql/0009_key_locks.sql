-- 0009 key_locks: rows that an outbox with lockKeys locks, so that messages of a key get their numbers in the order of the
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
