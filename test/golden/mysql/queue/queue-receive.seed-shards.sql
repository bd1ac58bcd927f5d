insert into `txbox_leases` (name)
values (?), (?)
