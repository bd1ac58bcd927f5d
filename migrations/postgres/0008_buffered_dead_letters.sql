-- 0008 buffered_dead_letters: the dead letters of version buffers are collected, by age.
-- Safe to run again.

create index if not exists waiting_dead_at on txbox.waiting (dead_at) where dead_at is not null;

insert into txbox.migrations (number, title) values (8, 'buffered_dead_letters') on conflict (number) do nothing;
