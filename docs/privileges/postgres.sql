-- This file grants each role the privileges that it needs on txbox's tables in PostgreSQL, and no others. It is for the
-- schema txbox. Run this file after 'txbox migrate', as the owner of the tables, who must be allowed to create roles. It is
-- safe to run again; run it again after each upgrade.
--
-- The roles cannot log in: grant them to the users of your services, e.g. grant txbox_app to shop;

begin;

do $$
declare
  name text;
begin
  foreach name in array array['txbox_app', 'txbox_local', 'txbox_relay', 'txbox_gc', 'txbox_operator', 'txbox_viewer'] loop
    if not exists (select from pg_catalog.pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;
end
$$;

grant usage on schema txbox to txbox_app, txbox_local, txbox_relay, txbox_gc, txbox_operator, txbox_viewer;

-- Every role checks the revision of the tables first.
grant select on txbox.migrations to txbox_app, txbox_local, txbox_relay, txbox_gc, txbox_operator, txbox_viewer;

-- Services: inbox.process and inbox.run, forget, outbox.publish. With the option deduplication, outbox.publish needs the
-- privileges on the inbox as well, because it stores ids there.
grant select, insert, update, delete on txbox.inbox to txbox_app;
grant insert on txbox.outbox, txbox.parked, txbox.local_outbox, txbox.local_parked to txbox_app;
-- createOutbox({ subscriptions }).
grant select on txbox.subscriptions to txbox_app;
-- sqlDedup, and handleLeased of createIdempotency, which needs the privileges on the inbox as well.
grant select, insert, update, delete on txbox.dedup_leases to txbox_app;
-- createVersionBuffer.
grant select, insert, update, delete on txbox.versions, txbox.waiting to txbox_app;
-- createQueue: send, receive and settle. Rows of the table of leases are the locks of a queue's shards. The options
-- deduplication and attemptId, and purge, need the privileges on the inbox as well.
grant select, insert, update, delete on txbox.queue to txbox_app;
grant select (name), insert (name), update (name) on txbox.leases to txbox_app;

-- createLocalConsumer, beside the privileges on your own tables that its handlers need. A handler that publishes needs
-- txbox_app as well.
grant select, update, delete on txbox.local_outbox to txbox_local;
grant select, insert, update, delete on txbox.local_parked, txbox.leases to txbox_local;
grant select, insert on txbox.subscriptions to txbox_local;
-- The last number of the sequence, which says how far a shard has been read.
grant select on sequence txbox.local_outbox_seq to txbox_local;

-- txbox relay, createRelay. SELECT … FOR UPDATE needs the privilege UPDATE.
grant select, delete on txbox.outbox to txbox_relay;
grant select, insert, update, delete on txbox.parked, txbox.leases to txbox_relay;
-- The last number of the sequence. Without this privilege, a relay finds messages late if the sequence was reset by hand.
grant select on sequence txbox.outbox_seq to txbox_relay;

-- txbox gc, createGarbageCollector.
grant select, update, delete on txbox.inbox, txbox.dedup_leases, txbox.parked, txbox.queue, txbox.local_parked, txbox.redrives,
  txbox.removals, txbox.waiting to txbox_gc;
grant select, update on txbox.collections to txbox_gc;
-- Rows of the table of leases are the locks of a queue's shards.
grant select (name), update (name) on txbox.leases to txbox_gc;

-- An operator and a viewer read columns by name: never the payload, the headers or a stored result of a message.
-- Earlier versions of this file let both roles read whole rows.
revoke select, update on txbox.parked from txbox_operator;
revoke select on txbox.inbox, txbox.outbox, txbox.parked from txbox_viewer;

-- txbox dead-letters, createDeadLetters. To let an operator see payloads as well:
--   grant select (payload, headers) on txbox.parked, txbox.queue, txbox.local_parked to alice;
grant select (place, created_at, due_at, dead_at, deliver_at, attempts, shard, order_key, id, topic, key, type,
  content_type, correlation_id, error, errors) on txbox.parked to txbox_operator;
grant update (due_at, dead_at, redriven_at, attempts, order_key), delete on txbox.parked to txbox_operator;
grant select (place, created_at, due_at, dead_at, deliver_at, attempts, timeouts, shard, receipt, topic, order_key, id, key,
  type, content_type, correlation_id, error, errors) on txbox.queue to txbox_operator;
grant update (due_at, dead_at, redriven_at, attempts, timeouts, receipt, order_key), delete on txbox.queue to txbox_operator;
grant select (place, created_at, due_at, dead_at, deliver_at, redriven_at, attempts, shard, suspect, unhandled, consumer,
  order_key, id, topic, key, type, content_type, correlation_id, error, errors) on txbox.local_parked to txbox_operator;
grant update (due_at, dead_at, redriven_at, attempts, order_key), delete on txbox.local_parked to txbox_operator;
grant select, insert on txbox.redrives to txbox_operator;
-- Whether a queue exists, and who runs a local consumer.
grant select (name, owner, term, expires_at) on txbox.leases to txbox_operator;
-- txbox consumers. SELECT … FOR UPDATE needs the privilege UPDATE on a column.
grant select (seq, created_at, shard, consumer, id, topic, key, type, content_type, correlation_id), update (seq), delete
  on txbox.local_outbox to txbox_operator;
grant select, insert, delete on txbox.subscriptions to txbox_operator;
grant select, insert, update (discarded) on txbox.removals to txbox_operator;

-- txbox status, txbox doctor. For a member of pg_monitor, doctor also shows which connection holds back the vacuum horizon.
grant select (consumer, key, processed_at, expires_at, correlation_id) on txbox.inbox to txbox_viewer;
grant select (consumer, key, processed_at, expires_at) on txbox.dedup_leases to txbox_viewer;
grant select (seq, created_at, shard, id, topic, key, type, content_type, correlation_id) on txbox.outbox to txbox_viewer;
grant select (place, created_at, due_at, dead_at, deliver_at, redriven_at, attempts, shard, order_key, id, topic, key,
  type, content_type, correlation_id, error, errors) on txbox.parked to txbox_viewer;
grant select (place, created_at, due_at, dead_at, deliver_at, redriven_at, attempts, timeouts, shard, receipt, topic,
  order_key, id, key, type, content_type, correlation_id, error, errors) on txbox.queue to txbox_viewer;
grant select (seq, created_at, shard, consumer, id, topic, key, type, content_type, correlation_id) on txbox.local_outbox
  to txbox_viewer;
grant select (place, created_at, due_at, dead_at, deliver_at, redriven_at, attempts, shard, suspect, unhandled, consumer,
  order_key, id, topic, key, type, content_type, correlation_id, error, errors) on txbox.local_parked to txbox_viewer;
grant select on txbox.subscriptions, txbox.removals to txbox_viewer;
grant select on txbox.leases, txbox.collections to txbox_viewer;

-- The server cancels statements that txbox has given up, so that a locked table does not fill the server with waiting
-- connections. The relay's statement_timeout must be longer than its lease (10 s by default). PostgreSQL applies the
-- settings of the role that logs in, and not those of roles that it is a member of: repeat these statements for the
-- users that the relay, the collector and your operators log in as, e.g. alter role shop_relay set lock_timeout = '10s';
alter role txbox_relay set statement_timeout = '15s';
alter role txbox_relay set lock_timeout = '10s';
alter role txbox_gc set statement_timeout = '60s';
alter role txbox_gc set lock_timeout = '10s';
alter role txbox_operator set statement_timeout = '60s';
alter role txbox_operator set lock_timeout = '10s';
alter role txbox_viewer set statement_timeout = '15s';
alter role txbox_viewer set lock_timeout = '5s';

commit;
