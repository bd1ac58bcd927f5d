insert into `txbox_leases` (name)
values (?),(?)
on duplicate key update term = `txbox_leases`.term
