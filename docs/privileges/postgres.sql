-- What each role needs on txbox's tables in PostgreSQL, and nothing more. For the schema txbox; run it after
-- 'txbox migrate', as the owner of the tables with the right to create roles. Safe to run again, also after an upgrade.
--
-- The roles log nobody in: give them to the users of your services, e.g. grant txbox_app, txbox_relay to shop;

do $$
declare
  name text;
begin
  foreach name in array array['txbox_app', 'txbox_relay', 'txbox_gc', 'txbox_operator', 'txbox_viewer'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;
end
$$;

grant usage on schema txbox to txbox_app, txbox_relay, txbox_gc, txbox_operator, txbox_viewer;

-- Everybody asks for the revision of the tables first.
grant select on txbox.migrations to txbox_app, txbox_relay, txbox_gc, txbox_operator, txbox_viewer;

-- Services: inbox.process and inbox.run, forget, outbox.publish.
grant select, insert, update, delete on txbox.inbox to txbox_app;
grant insert on txbox.outbox, txbox.parked to txbox_app;
-- … and createVersionBuffer.
grant select, insert, update, delete on txbox.versions, txbox.waiting to txbox_app;

-- txbox relay, createRelay. SELECT … FOR UPDATE wants the right to update.
grant select, delete on txbox.outbox to txbox_relay;
grant select, insert, update, delete on txbox.parked, txbox.leases to txbox_relay;

-- txbox gc, createGarbageCollector.
grant select, update, delete on txbox.inbox, txbox.parked, txbox.redrives, txbox.waiting to txbox_gc;
grant select, update on txbox.collections to txbox_gc;

-- txbox dead-letters, createDeadLetters.
grant select, update, delete on txbox.parked to txbox_operator;
grant select, insert on txbox.redrives to txbox_operator;

-- txbox status, txbox doctor. Whoever may see what others do (pg_monitor) also sees who pins the vacuum horizon.
grant select on txbox.inbox, txbox.outbox, txbox.parked, txbox.leases, txbox.collections to txbox_viewer;
