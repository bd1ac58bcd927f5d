SAVEPOINT txbox_probe;RELEASE SAVEPOINT txbox_probe;select 1
