/*
 * MySQL and MariaDB have no UPDATE with SKIP LOCKED, so rows are locked by a query first; they need a branch for each key.
 * PostgreSQL settles in one statement.
 */
import type { Tables } from '../connection/identifiers.ts'
import type { ServerTraits } from '../connection/server.ts'
import { parkedStatementsOn } from '../relay/parked-statements.ts'
import { IS_HOLDER, instant, placeIn, rowsTable, stampIn, unionAll } from '../relay/relay-statements.ts'
import { LOCAL_SHARD, skipLocked } from './local-statements.ts'

/** The statements on parked messages that local consumers share with relays. */
export function sharedParkedStatements({ localParked }: Pick<Tables, 'localParked'>) {
  return parkedStatementsOn({
    parked: localParked,
    name: 'local_parked',
    shard: LOCAL_SHARD,
    topic: 'optional topic',
    isUnhandled: true,
  })
}

/** All statements on the parked messages of local consumers. `?` is replaced by a value as a literal. */
export function localParkedStatements({ localParked, leases }: Tables, engine: ServerTraits['engine']) {
  const place = placeIn(LOCAL_SHARD)
  /** The rows of a list that are no dead letters. The text belongs behind FROM. */
  const listed = `${rowsTable('place')} as j
straight_join ${localParked} as p force index (primary) on p.place = j.place
where ${place('p')} and p.dead_at is null and ${stampIn('p')} = ${instant('j.stamp')}`
  const stamp = "cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as stamp"
  return {
    ...sharedParkedStatements({ localParked }),

    /** See `lockOne` of the waiting messages. */
    lockOne: `
select cast(p.place as char) as seq
from ${localParked} as p force index (primary)
where p.place = ? and ${stampIn('p')} = ${instant('?')} and ${place('p')} and p.dead_at is null
  and (select count(*) from ${leases} as l where ${IS_HOLDER}) = 1
${skipLocked(engine, 'p')}`,

    lock: `
select cast(p.place as char) as seq
from ${listed}
  and (select count(*) from ${leases} as l where ${IS_HOLDER}) = 1
${skipLocked(engine, 'p')}`,

    removeOne: `
delete from ${localParked}
where place = ? and ${stampIn(localParked)} = ${instant('?')} and consumer = ? and shard = ? and dead_at is null`,

    removeListed: `
delete p
from ${listed}`,

    /** Locks the rows that a settlement changes or deletes, without waiting for handlers. `later`: the message is not due yet. */
    lockListed: `
select cast(p.place as char) as place, p.order_key as order_key, case when p.due_at > utc_timestamp(6) then '1' end as later
from ${listed}
${skipLocked(engine, 'p')}`,

    /** Finds rows, also those that another transaction has locked. */
    findListed: `
select cast(p.place as char) as place, p.order_key as order_key
from ${listed}`,

    /** The first messages of a key. */
    ofKey: `
select cast(p.place as char) as place, ${stamp}
from ${localParked} as p force index (local_parked_order)
where ${place('p')} and p.order_key = ?
order by p.consumer, p.shard, p.order_key, p.place
limit ?`,

    /** Locks messages by their places alone, for a transaction that has found them. */
    lockPlaces: `
select cast(p.place as char) as place
from json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join ${localParked} as p force index (primary) on p.place = j.place
where p.dead_at is null
${skipLocked(engine, 'p')}`,

    /** Whether a key is blocked. Each key is a branch of `blockedOfAll`. */
    blocked: `
(select cast(? as char) as n from ${localParked} as p force index (local_parked_order) where ${place('p')} and p.order_key = ? limit 1)`,

    blockedOfAll: unionAll,

    /** Messages of some types that wait, each first in its key, because the consumer had no handler for them. */
    unhandled: `
select cast(p.place as char) as place
from ${localParked} as p force index (local_parked_unhandled)
where p.consumer = ? and p.unhandled = 1 and p.place > ? and cast(p.type as binary) in (?) and p.due_at > utc_timestamp(6)
  and p.dead_at is null
order by p.place
limit ?`,

    makeDue: `
update json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join ${localParked} as p force index (primary) on p.place = j.place
set p.due_at = utc_timestamp(6)
where p.due_at > utc_timestamp(6) and p.dead_at is null`,
  } as const
}
