/*
 * MySQL and MariaDB find messages without locks, lock them by their keys, delete them and count them; PostgreSQL does this in one
 * statement.
 */
import type { Tables } from '../connection/identifiers.ts'
import type { ServerTraits } from '../connection/server.ts'

/**
 * The statements that end subscriptions of local consumers. `?` is replaced by a value as a literal. Each condition on the type
 * is a part of its own.
 */
export function removalStatements(
  { localOutbox, localParked, subscriptions, removals }: Tables,
  engine: ServerTraits['engine'],
) {
  /** MySQL refuses to lock the rows of JSON_TABLE; MariaDB has no OF. */
  const skipLocked = engine === 'mysql' ? 'for update of m skip locked' : 'for update skip locked'
  const waiting = `json_table(?, '$[*]' columns (shard smallint unsigned path '$[0]', seq bigint unsigned path '$[1]')) as j
straight_join ${localOutbox} as m force index (primary) on m.consumer = ? and m.shard = j.shard and m.seq = j.seq`
  const parked = `json_table(?, '$[*]' columns (place bigint unsigned path '$[0]')) as j
straight_join ${localParked} as m force index (primary) on m.place = j.place`
  return {
    ofType: '\n  and cast(m.type as binary) = ?',

    subscribed: (conditions: readonly string[]) => `
select cast(exists (
  select 1 from ${subscriptions} as m where m.consumer = ?${conditions.join('')}
) as char) as subscribed`,

    countWaiting: (conditions: readonly string[]) => `
select cast(count(*) as char) as n
from (
  select 1 from ${localOutbox} as m force index (primary) where m.consumer = ?${conditions.join('')} limit ?
) as counted`,

    /** Dead letters have no `due_since`. */
    countParked: (conditions: readonly string[]) => `
select cast(count(*) as char) as n
from (
  select 1 from ${localParked} as m force index (local_parked_due_since)
  where m.consumer = ? and m.due_since is not null${conditions.join('')} limit ?
) as counted`,

    countDead: (conditions: readonly string[]) => `
select cast(count(*) as char) as n
from (
  select 1 from ${localParked} as m force index (local_parked_due_since)
  where m.consumer = ? and m.due_since is null${conditions.join('')} limit ?
) as counted`,

    findSubscriptions: (conditions: readonly string[]) => `
select hex(m.type) as type
from ${subscriptions} as m
where m.consumer = ?${conditions.join('')}
order by m.type`,

    /** By the primary key: a search that locks would wait for every row of another consumer that is being registered. */
    end: `
delete m
from json_table(?, '$[*]' columns (type varchar(2040) character set ascii path '$')) as j
straight_join ${subscriptions} as m force index (primary) on m.type = unhex(j.type) and m.consumer = ?`,

    record: `
insert into ${removals} (removed_at, discarded, consumer, type, removed_by)
values (utc_timestamp(6), 0, ?, ?, ?)`,

    recorded: 'select cast(last_insert_id() as char) as number',

    /** All open transactions in the database: which tables they have read is not visible. Needs the privilege PROCESS. */
    readers: `
select cast(concat(t.trx_mysql_thread_id, ' ', t.trx_started) as char) as id
from information_schema.innodb_trx as t
join information_schema.processlist as p on p.id = t.trx_mysql_thread_id
where p.db = database() and p.id <> connection_id()`,

    findWaiting: (conditions: readonly string[]) => `
select cast(m.shard as char) as shard, cast(m.seq as char) as seq
from ${localOutbox} as m force index (primary)
where m.consumer = ? and (m.shard > ? or (m.shard = ? and m.seq > ?))${conditions.join('')}
order by m.shard, m.seq
limit ?`,

    lockWaiting: `
select cast(m.shard as char) as shard, cast(m.seq as char) as seq
from ${waiting}
${skipLocked}`,

    discardWaiting: `
delete m
from ${waiting}`,

    findParked: (conditions: readonly string[]) => `
select cast(m.place as char) as place
from ${localParked} as m force index (primary)
where m.consumer = ? and m.place > ?${conditions.join('')}
order by m.place
limit ?`,

    lockParked: `
select cast(m.place as char) as place
from ${parked}
${skipLocked}`,

    discardParked: `
delete m
from ${parked}`,

    count: `
update ${removals} set discarded = discarded + ? where number = ?`,
  } as const
}
