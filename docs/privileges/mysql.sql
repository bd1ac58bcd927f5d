-- What each role needs on txbox's tables in MySQL and MariaDB, and nothing more. For the prefix txbox_; run it after
-- 'txbox migrate', in the database of the tables, by a user who may create roles. Safe to run again.
--
-- Give them to the users of your services, and make them the default there:
--   MySQL:   grant txbox_app, txbox_relay to 'shop'@'%'; set default role all to 'shop'@'%';
--   MariaDB: a user has one default role: grant the rights below to the user himself instead.

create role if not exists txbox_app, txbox_relay, txbox_gc, txbox_operator, txbox_viewer;

-- Everybody asks for the revision of the tables first.
grant select on txbox_migrations to txbox_app, txbox_relay, txbox_gc, txbox_operator, txbox_viewer;

-- Services: inbox.process and inbox.run, forget, outbox.publish.
grant select, insert, update, delete on txbox_inbox to txbox_app;
-- A message that was stored outside a transaction by mistake is deleted again.
grant select, insert, delete on txbox_outbox to txbox_app;
grant insert on txbox_parked to txbox_app;
-- … and createVersionBuffer.
grant select, insert, update, delete on txbox_versions to txbox_app;
grant select, insert, update, delete on txbox_waiting to txbox_app;

-- txbox relay, createRelay.
grant select, delete on txbox_outbox to txbox_relay;
grant select, insert, update, delete on txbox_parked to txbox_relay;
grant select, insert, update, delete on txbox_leases to txbox_relay;

-- txbox gc, createGarbageCollector.
grant select, delete on txbox_inbox to txbox_gc;
grant select, delete on txbox_parked to txbox_gc;
grant select, delete on txbox_redrives to txbox_gc;
grant select, delete on txbox_waiting to txbox_gc;
grant select, update on txbox_collections to txbox_gc;

-- txbox dead-letters, createDeadLetters.
grant select, update, delete on txbox_parked to txbox_operator;
grant select, insert on txbox_redrives to txbox_operator;

-- txbox status, txbox doctor. With PROCESS, which only an administrator can grant, doctor also sees who keeps deleted
-- rows from going: grant process on *.* to txbox_viewer;
grant select on txbox_inbox to txbox_viewer;
grant select on txbox_outbox to txbox_viewer;
grant select on txbox_parked to txbox_viewer;
grant select on txbox_leases to txbox_viewer;
grant select on txbox_collections to txbox_viewer;
