-- This file grants each role the privileges that it needs on txbox's tables in MySQL and MariaDB, and no others. It is for
-- the prefix txbox_. Run this file after 'txbox migrate', in the database of the tables, as a user who may create roles. It
-- is safe to run again; run it again after each upgrade.
--
-- Grant the roles to the users of your services, and make the roles the default roles of these users:
--   MySQL:   grant txbox_app to 'shop'@'%'; set default role all to 'shop'@'%';
--   MariaDB: grant txbox_app to 'shop'@'%'; set default role txbox_app for 'shop'@'%'; (a user has one default role)

create role if not exists txbox_app, txbox_local, txbox_relay, txbox_gc, txbox_operator, txbox_viewer;

-- Every role checks the revision of the tables first.
grant select on txbox_migrations to txbox_app, txbox_local, txbox_relay, txbox_gc, txbox_operator, txbox_viewer;

-- Services: inbox.process and inbox.run, forget, outbox.publish. With the option deduplication, outbox.publish needs the
-- privileges on the inbox as well, because it stores ids there.
grant select, insert, update, delete on txbox_inbox to txbox_app;
-- A message that was stored outside a transaction by mistake is deleted again.
grant select, insert, delete on txbox_outbox to txbox_app;
grant insert on txbox_parked to txbox_app;
-- createOutbox({ subscriptions }).
grant select, insert, delete on txbox_local_outbox to txbox_app;
grant insert on txbox_local_parked to txbox_app;
grant select on txbox_subscriptions to txbox_app;
-- createOutbox({ lockKeys: true }). SELECT … FOR UPDATE needs the privilege UPDATE.
grant select, update on txbox_key_locks to txbox_app;
-- sqlDedup, and handleLeased of createIdempotency, which needs the privileges on the inbox as well.
grant select, insert, update, delete on txbox_dedup_leases to txbox_app;
-- createVersionBuffer.
grant select, insert, update, delete on txbox_versions to txbox_app;
grant select, insert, update, delete on txbox_waiting to txbox_app;

-- createQueue: send, receive and settle. Rows of the table of leases are the locks of a queue's shards; SELECT … FOR UPDATE
-- needs the privilege UPDATE. The options deduplication and attemptId, and purge, need the privileges on the inbox as well.
grant select, insert, update, delete on txbox_queue to txbox_app;
grant select, insert, update on txbox_leases to txbox_app;

-- createLocalConsumer, beside the privileges on your own tables that its handlers need. A handler that publishes needs
-- txbox_app as well: with MariaDB's one default role, grant txbox_app to txbox_local.
grant select, update, delete on txbox_local_outbox to txbox_local;
grant select, insert, update, delete on txbox_local_parked to txbox_local;
grant select, insert, update, delete on txbox_leases to txbox_local;
grant select, insert, update on txbox_subscriptions to txbox_local;

-- txbox relay, createRelay.
grant select, delete on txbox_outbox to txbox_relay;
grant select, insert, update, delete on txbox_parked to txbox_relay;
grant select, insert, update, delete on txbox_leases to txbox_relay;

-- txbox gc, createGarbageCollector.
grant select, delete on txbox_inbox to txbox_gc;
grant select, delete on txbox_dedup_leases to txbox_gc;
grant select, delete on txbox_parked to txbox_gc;
grant select, update, delete on txbox_queue to txbox_gc;
grant select, delete on txbox_local_parked to txbox_gc;
grant select, delete on txbox_redrives to txbox_gc;
grant select, delete on txbox_removals to txbox_gc;
grant select, delete on txbox_waiting to txbox_gc;
grant select, update on txbox_collections to txbox_gc;
-- Rows of the table of leases are the locks of a queue's shards; SELECT … FOR UPDATE needs the privilege UPDATE.
grant select, update on txbox_leases to txbox_gc;

-- An operator and a viewer read columns by name: never the payload, the headers or a stored result of a message. Earlier
-- versions of this file let both roles read whole rows; if you ran such a version, revoke these privileges:
--   revoke select, update on txbox_parked from txbox_operator;
--   revoke select on txbox_inbox from txbox_viewer; (and on txbox_outbox, on txbox_parked)

-- txbox dead-letters, createDeadLetters. To let an operator see payloads as well:
--   grant select (payload, headers) on txbox_parked to 'alice'@'%'; (and on txbox_queue, on txbox_local_parked)
grant select (place, created_at, due_at, dead_at, deliver_at, attempts, shard, order_key, id, topic, `key`, type,
  content_type, correlation_id, error, errors) on txbox_parked to txbox_operator;
grant update (due_at, dead_at, redriven_at, attempts, order_key) on txbox_parked to txbox_operator;
grant delete on txbox_parked to txbox_operator;
grant select (place, created_at, due_at, dead_at, deliver_at, attempts, timeouts, shard, receipt, topic, order_key, id, `key`,
  type, content_type, correlation_id, error, errors) on txbox_queue to txbox_operator;
grant update (due_at, dead_at, redriven_at, attempts, timeouts, receipt, order_key) on txbox_queue to txbox_operator;
grant delete on txbox_queue to txbox_operator;
grant select (place, created_at, due_at, dead_at, deliver_at, redriven_at, due_since, attempts, shard, suspect, unhandled,
  consumer, order_key, id, topic, `key`, type, content_type, correlation_id, error, errors) on txbox_local_parked
  to txbox_operator;
grant update (due_at, dead_at, redriven_at, attempts, order_key) on txbox_local_parked to txbox_operator;
grant delete on txbox_local_parked to txbox_operator;
grant select, insert on txbox_redrives to txbox_operator;
-- Whether a queue exists, and who runs a local consumer.
grant select (name, owner, term, expires_at) on txbox_leases to txbox_operator;
-- txbox consumers. With PROCESS, which only an administrator can grant, 'remove' sees which transactions are open, and need not
-- always wait: grant process on *.* to txbox_operator;
grant select (seq, created_at, shard, consumer, id, topic, `key`, type, content_type, correlation_id) on txbox_local_outbox
  to txbox_operator;
grant delete on txbox_local_outbox to txbox_operator;
grant select, insert, update, delete on txbox_subscriptions to txbox_operator;
grant select, insert on txbox_removals to txbox_operator;
grant update (discarded) on txbox_removals to txbox_operator;

-- txbox status, txbox doctor. With PROCESS, which only an administrator can grant, doctor also shows which transaction keeps
-- deleted rows from being purged: grant process on *.* to txbox_viewer;
grant select (consumer, `key`, processed_at, expires_at, correlation_id) on txbox_inbox to txbox_viewer;
grant select (consumer, `key`, processed_at, expires_at) on txbox_dedup_leases to txbox_viewer;
grant select (seq, created_at, shard, id, topic, `key`, type, content_type, correlation_id) on txbox_outbox to txbox_viewer;
grant select (place, created_at, due_at, dead_at, deliver_at, redriven_at, due_since, attempts, shard, order_key, id, topic,
  `key`, type, content_type, correlation_id, error, errors) on txbox_parked to txbox_viewer;
grant select (place, created_at, due_at, dead_at, deliver_at, redriven_at, due_since, attempts, timeouts, shard, receipt,
  flight, topic, order_key, id, `key`, type, content_type, correlation_id, error, errors) on txbox_queue to txbox_viewer;
grant select (seq, created_at, shard, consumer, id, topic, `key`, type, content_type, correlation_id) on txbox_local_outbox
  to txbox_viewer;
grant select (place, created_at, due_at, dead_at, deliver_at, redriven_at, due_since, attempts, shard, suspect, unhandled,
  consumer, order_key, id, topic, `key`, type, content_type, correlation_id, error, errors) on txbox_local_parked
  to txbox_viewer;
grant select on txbox_subscriptions to txbox_viewer;
grant select on txbox_removals to txbox_viewer;
grant select on txbox_leases to txbox_viewer;
grant select on txbox_key_locks to txbox_viewer;
grant select on txbox_collections to txbox_viewer;

-- The server should cancel statements that txbox has given up. MariaDB has a limit for each user (not for a role), in
-- seconds:
--   alter user 'shop_relay'@'%' with max_statement_time 15; (longer than the relay's lease, which is 10 s by default; 60
--   for the collector and operators)
-- MySQL has no such setting for a user. A limit for the whole server bounds how long a statement waits for a locked table,
-- which is a year by default:
--   set persist lock_wait_timeout = 60;
