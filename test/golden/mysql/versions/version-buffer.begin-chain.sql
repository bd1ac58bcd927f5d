insert into `txbox_versions` (consumer, `key`, version)
values (?, ?, ?)
on duplicate key update version = `txbox_versions`.version
