-- 0006 redrives: the records of redrives are collected, by age.
-- Safe to run again.

create index if not exists redrives_redriven_at on txbox.redrives (redriven_at);

insert into txbox.migrations (number, title) values (6, 'redrives') on conflict (number) do nothing;
