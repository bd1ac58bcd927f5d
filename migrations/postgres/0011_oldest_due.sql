-- 0011 oldest_due: finds the message that has been due the longest: since it was stored, since the time that its producer asked
-- for, or since an operator put it back, whichever is the latest. `due_at` does not show this time, because each retry moves it.
-- Safe to run again. Writers of older versions need not know the column.

-- When an operator last put the message back.
alter table txbox.parked add column if not exists redriven_at timestamptz;
alter table txbox.queue add column if not exists redriven_at timestamptz;

create index if not exists parked_due_since on txbox.parked ((greatest(created_at, deliver_at, redriven_at)))
  where dead_at is null;
-- A row with `due_at` at the epoch has been handled.
create index if not exists queue_due_since on txbox.queue ((greatest(created_at, deliver_at, redriven_at)))
  where dead_at is null and due_at is distinct from timestamptz 'epoch';

insert into txbox.migrations (number, title) values (11, 'oldest_due') on conflict (number) do nothing;
