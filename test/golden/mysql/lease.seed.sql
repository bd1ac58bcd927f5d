insert into `txbox_leases` (name)
values ROWS
on duplicate key update term = `txbox_leases`.term
