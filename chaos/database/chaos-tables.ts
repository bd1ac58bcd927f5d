import { SHARDS } from '@txbox/core/internal'
import { DATABASE } from '../servers/database-engine.ts'
import type { Engine } from './engine.ts'
import { LOCAL_CONSUMERS, LOCAL_TYPE } from '../workers/worker-protocol.ts'
import type { Sql } from './sql.ts'

/** The tables of txbox, by the names that the database has for them. */
export function txboxTables(engine: Engine) {
  const of = (name: string): string => (engine === 'postgres' ? `txbox.${name}` : `txbox_${name}`)
  return {
    inbox: of('inbox'),
    dedupLeases: of('dedup_leases'),
    outbox: of('outbox'),
    parked: of('parked'),
    leases: of('leases'),
    waiting: of('waiting'),
    versions: of('versions'),
    queue: of('queue'),
    localOutbox: of('local_outbox'),
    localParked: of('local_parked'),
    subscriptions: of('subscriptions'),
  } as const
}

export type TxboxTable = keyof ReturnType<typeof txboxTables>

/** The names of the aggregates, which are also the ordering keys. */
export const KEYS: readonly string[] = Array.from({ length: 48 }, (_, n) => `account-${n}`)

/** Ordering keys without an aggregate, which producers lock by `lockKeys`. */
export const LOCKED_KEYS: readonly string[] = Array.from({ length: 3 }, (_, n) => `counter-${n}`)

/** The aggregates of the messages that are sent to the queue. A producer locks them after all other aggregates. */
export const QUEUE_KEYS: readonly string[] = Array.from({ length: 24 }, (_, n) => `job-${n}`)

/**
 * Keys of the queue without an aggregate, so that a message may be committed while a later one of its key is in flight.
 * There are so many that most have no message that waits: a waiting message is the next one, whatever is committed later.
 */
export const UNLOCKED_QUEUE_KEYS: readonly string[] = Array.from({ length: 16 }, (_, n) => `task-${n}`)

/** The aggregates of the messages of local consumers. A producer locks them after all other aggregates. */
export const LOCAL_KEYS: readonly string[] = Array.from({ length: 24 }, (_, n) => `entry-${n}`)

/** Keys of local consumers without an aggregate: a message may be committed while a later one of its key is in flight. */
export const UNLOCKED_LOCAL_KEYS: readonly string[] = Array.from({ length: 16 }, (_, n) => `note-${n}`)

/**
 * Creates the tables of the business and of the checker.
 *
 * - `chaos_aggregates`: one row a key; a producer locks the row before it publishes.
 * - `chaos_committed`: one row a message, written in the transaction that publishes the message.
 * - `chaos_sends`: one row each time a request was sent with its deduplication id, with the id of the message that is
 *   stored for the request, and the id that a new message would have had.
 * - `chaos_effects`: one row each time a message took effect. No column is unique, so that a second effect is visible.
 * - `chaos_queued`: one row a message of the queue, as in `chaos_committed`.
 * - `chaos_queue_effects`: one row each time a message of the queue took effect: the place that its payload has, and when
 *   its handler began and ended, by the database's clock.
 * - `chaos_local`: one row a message of the local consumers, as in `chaos_committed`.
 * - `chaos_local_effects`: one row each time a message took effect at a local consumer, as in `chaos_queue_effects`, with the call
 *   of the handler: the messages of a batch have the same.
 * - `chaos_http_effects`: one row each time an HTTP request took effect: its key, the response id of this call of the handler, and
 *   when the handler began and ended, by the database's clock.
 * - `chaos_applied`: what the version buffer applied, in order.
 * - `chaos_balances`: versioned rows, one for each key and epoch.
 * - `chaos_lease_log`, `chaos_unfenced` and `chaos_moves`: written by triggers on the tables of txbox. `chaos_moves` has a
 *   row each time a message enters or leaves a table of txbox, or changes there, for the history of a violation.
 */
export async function createChaosTables(engine: Engine, sql: Sql): Promise<void> {
  // The clients' user has the name of the schema, which would otherwise get these tables too.
  if (engine === 'postgres') await sql.query('set search_path to public')
  for (const statement of engine === 'postgres' ? postgresTables() : mysqlTables()) await sql.query(statement)
  for (const key of [...KEYS, ...QUEUE_KEYS, ...LOCAL_KEYS]) {
    await sql.query(`insert into chaos_aggregates (name, epoch, n) values (?, '', 0)`, [key])
  }
  // As an operator does it with `txbox consumers add`: producers may publish before the local consumers have started.
  const { subscriptions } = txboxTables(engine)
  const now = engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
  for (const consumer of LOCAL_CONSUMERS) {
    await sql.query(`insert into ${subscriptions} (registered_at, type, consumer) values (${now}, ?, ?)`, [
      LOCAL_TYPE,
      consumer,
    ])
  }
}

function columns(serial: string): readonly string[] {
  const ledger = `serial ${serial}, message_id varchar(64) not null, name varchar(100), epoch varchar(60) not null,
    place bigint, deliver_at_ms bigint, ill varchar(20), producer varchar(40) not null`
  return [
    'create table chaos_aggregates (name varchar(100) primary key, epoch varchar(60) not null, n bigint not null)',
    `create table chaos_committed (${ledger})`,
    'create index chaos_committed_place on chaos_committed (name, epoch, place)',
    `create table chaos_queued (${ledger})`,
    'create index chaos_queued_message_id on chaos_queued (message_id)',
    `create table chaos_queue_effects (serial ${serial}, message_id varchar(64) not null, place bigint,
      worker varchar(40) not null, began_ms double precision not null, ended_ms double precision not null)`,
    'create index chaos_queue_effects_message_id on chaos_queue_effects (message_id)',
    `create table chaos_local (${ledger})`,
    'create index chaos_local_message_id on chaos_local (message_id)',
    `create table chaos_local_effects (serial ${serial}, consumer varchar(40) not null, message_id varchar(64) not null,
      place bigint, worker varchar(40) not null, handler_call varchar(40) not null, began_ms double precision not null,
      ended_ms double precision not null)`,
    'create index chaos_local_effects_message_id on chaos_local_effects (message_id)',
    'create index chaos_local_effects_handler_call on chaos_local_effects (handler_call)',
    `create table chaos_http_effects (serial ${serial}, request_key varchar(64) not null, response_id varchar(64) not null,
      worker varchar(40) not null, began_ms double precision not null, ended_ms double precision not null)`,
    'create index chaos_http_effects_request_key on chaos_http_effects (request_key)',
    'create index chaos_http_effects_response_id on chaos_http_effects (response_id)',
    `create table chaos_sends (serial ${serial}, request varchar(40) not null, message_id varchar(64) not null,
      new_id varchar(64) not null)`,
    `create table chaos_effects (serial ${serial}, message_id varchar(64) not null, worker varchar(40) not null)`,
    'create index chaos_effects_message_id on chaos_effects (message_id)',
    `create table chaos_applied (serial ${serial}, version_key varchar(160) not null, from_version bigint not null,
      message_id varchar(64) not null)`,
    `create table chaos_balances (version_key varchar(160) primary key, version bigint not null, total bigint not null)`,
    `create table chaos_moves (serial ${serial}, at_ms double precision not null, message_id varchar(64) not null,
      what varchar(80) not null, number bigint not null, client varchar(40) not null)`,
    'create index chaos_moves_message_id on chaos_moves (message_id)',
  ]
}

function postgresTables(): readonly string[] {
  return [
    ...columns('bigint generated always as identity primary key'),
    `create table chaos_lease_log (at_ms double precision not null, shard integer not null, owner text)`,
    `create table chaos_unfenced (at_ms double precision not null, shard integer not null, message_id text not null,
      owner text, settled_by text not null)`,
    `create function chaos_lease_changed() returns trigger language plpgsql as $$
      begin
        if new.name like 'outbox/%' then
          insert into public.chaos_lease_log (at_ms, shard, owner)
          values (extract(epoch from clock_timestamp()) * 1000, substr(new.name, 8)::integer, new.owner);
        end if;
        return null;
      end $$`,
    `create trigger chaos_lease_changed after update on txbox.leases for each row
      when (new.owner is distinct from old.owner or new.term <> old.term)
      execute function chaos_lease_changed()`,
    `create function chaos_message_settled() returns trigger language plpgsql as $$
      declare
        holder text;
        settler text := current_setting('application_name');
      begin
        if settler like 'relay-%' then
          select l.owner into holder from txbox.leases as l where l.name = 'outbox/' || lpad(old.shard::text, 2, '0');
          if holder is distinct from settler then
            insert into public.chaos_unfenced (at_ms, shard, message_id, owner, settled_by)
            values (extract(epoch from clock_timestamp()) * 1000, old.shard, old.id, holder, settler);
          end if;
        end if;
        return null;
      end $$`,
    `create trigger chaos_message_settled after delete on txbox.outbox for each row
      execute function chaos_message_settled()`,
    ...MOVED.flatMap((table) => [
      `create function chaos_${table}_moved() returns trigger language plpgsql as $$
        declare
          message txbox.${table} := case when tg_op = 'DELETE' then old else new end;
        begin
          insert into public.chaos_moves (at_ms, message_id, what, number, client)
          values (
            extract(epoch from clock_timestamp()) * 1000, message.id,
            left(lower(tg_op) || ' ${table}'${STATE[table]}, 80),
            message.${table.endsWith('outbox') ? 'seq' : 'place'}, left(current_setting('application_name'), 40)
          );
          return null;
        end $$`,
      `create trigger chaos_${table}_moved after insert or update or delete on txbox.${table} for each row
        execute function chaos_${table}_moved()`,
    ]),
  ]
}

const DUE = `' due ' || coalesce(extract(epoch from message.due_at - clock_timestamp())::text, 'never')`
const PARKED = ` || ${DUE} || ' attempts ' || message.attempts || case when message.suspect then ' suspect' else '' end`
const OF = ` || ' of ' || message.consumer`
/** The state of a row, for `chaos_moves`. A message of the queue that is due at the epoch has been handled. */
const STATE = {
  outbox: '',
  parked: PARKED,
  local_outbox: OF,
  local_parked: OF + PARKED,
  queue: ` || case when message.due_at = timestamptz 'epoch' then ' handled' else ${DUE} end
    || ' receives ' || message.attempts || case when message.receipt is null then '' else ' in flight' end`,
} as const

/** The tables whose changes are kept in `chaos_moves`. */
const MOVED = ['outbox', 'parked', 'queue', 'local_outbox', 'local_parked'] as const

/** Relays connect as users of their own, which name them in the trigger; PostgreSQL has the name of the application. */
export const RELAY_SLOTS = ['relay-1', 'relay-2'] as const

function mysqlTables(): readonly string[] {
  return [
    ...columns('bigint auto_increment primary key'),
    `create table chaos_lease_log (at_ms double not null, shard integer not null, owner varchar(255))`,
    `create table chaos_unfenced (at_ms double not null, shard integer not null, message_id varchar(64) not null,
      owner varchar(255), settled_by varchar(255) not null)`,
    `create trigger chaos_lease_changed after update on txbox_leases for each row
      insert into chaos_lease_log (at_ms, shard, owner)
      select unix_timestamp(sysdate(6)) * 1000, cast(substr(convert(new.name using utf8mb4), 8) as signed), convert(new.owner using utf8mb4)
      from (select 1) as one
      where new.name like 'outbox/%' and (not (new.owner <=> old.owner) or new.term <> old.term)`,
    `create trigger chaos_message_settled after delete on txbox_outbox for each row
      insert into chaos_unfenced (at_ms, shard, message_id, owner, settled_by)
      select unix_timestamp(sysdate(6)) * 1000, old.shard, old.id, convert(l.owner using utf8mb4), substring_index(user(), '@', 1)
      from txbox_leases as l
      where l.name = concat('outbox/', lpad(old.shard, 2, '0')) and user() like 'relay-%'
        and not (substring_index(convert(l.owner using utf8mb4), '.', 1) <=> substring_index(user(), '@', 1))`,
    ...MOVED.flatMap((table) =>
      (['insert', 'update', 'delete'] as const)
        .filter((verb) => !table.endsWith('outbox') || verb !== 'update')
        .map((verb) => {
          const row = verb === 'delete' ? 'old' : 'new'
          const due = `' due ', ifnull(timestampdiff(microsecond, utc_timestamp(6), ${row}.due_at) / 1000000, 'never')`
          const parked = `, ${due}, ' attempts ', ${row}.attempts, if(${row}.suspect, ' suspect', '')`
          const of = `, ' of ', convert(${row}.consumer using utf8mb4)`
          const state = {
            outbox: '',
            parked,
            local_outbox: of,
            local_parked: of + parked,
            queue: `, if(${row}.due_at = '1970-01-01', ' handled', concat(${due})), ' receives ', ${row}.attempts, if(${row}.receipt is null, '', ' in flight')`,
          }[table]
          return `create trigger chaos_${table}_${verb} after ${verb} on txbox_${table} for each row
            insert into chaos_moves (at_ms, message_id, what, number, client)
            values (unix_timestamp(sysdate(6)) * 1000, convert(${row}.id using utf8mb4), left(concat('${verb} ${table}'${state}), 80),
              ${row}.${table.endsWith('outbox') ? 'seq' : 'place'}, left(user(), 40))`
        }),
    ),
    // As which of the two a client of this machine is taken depends on the server's settings.
    ...RELAY_SLOTS.flatMap((slot) =>
      ['localhost', '127.0.0.1'].flatMap((host) => [
        `create user '${slot}'@'${host}'`,
        `grant all on ${DATABASE}.* to '${slot}'@'${host}'`,
        `grant process on *.* to '${slot}'@'${host}'`,
      ]),
    ),
  ]
}

/**
 * An expression that names the server for as long as its history does not fork: the places of a key begin again after a
 * failover, since the new primary may have lost the last places.
 */
export function epochExpression(engine: Engine): string {
  return engine === 'postgres'
    ? 'substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)'
    : `concat(@@server_id, '-', @@port)`
}

/** The database's clock in milliseconds since 1970, which goes on within a transaction. */
export function clockExpression(engine: Engine): string {
  return engine === 'postgres'
    ? 'extract(epoch from clock_timestamp())::double precision * 1000'
    : 'unix_timestamp(sysdate(6)) * 1000'
}

export function shardName(shard: number): string {
  if (!(shard >= 0 && shard < SHARDS)) throw new RangeError(`There is no shard ${shard}.`)
  return `outbox/${String(shard).padStart(2, '0')}`
}
