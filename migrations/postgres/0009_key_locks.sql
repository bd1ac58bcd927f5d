-- 0009 key_locks: rows that stand for ordering keys are locked on MySQL and MariaDB. PostgreSQL has advisory locks for that,
-- and gets no table.
-- Safe to run again.

insert into txbox.migrations (number, title) values (9, 'key_locks') on conflict (number) do nothing;
