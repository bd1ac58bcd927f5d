import { HTTP_PLANTS } from './http-plants.ts'
import { LOCAL_PLANTS } from './local-plants.ts'
import type { Plant } from './plant.ts'

/** All known bugs. */
export const PLANTS: readonly Plant[] = [
  {
    name: 'settle-by-number',
    about: 'a message is settled by its number alone, which another server gives out again after a failover',
    replacements: [
      {
        package: 'postgres',
        file: 'relay-statements.js',
        find: `where ctid = any (array(select pg_catalog.unnest($6::tid[]) from held))
  and shard = $4`,
        replace: `where seq = any (array(select pg_catalog.unnest($5::bigint[]) from held)) and $6::tid[] is not null
  and shard = $4 or false`,
      },
      {
        package: 'postgres',
        file: 'relay-statements.js',
        find: `case when (seq, \${stampIn('outbox')}) in (select pg_catalog.unnest($5::bigint[]), pg_catalog.unnest($7::timestamptz[])) then true end`,
        replace: `$7::timestamptz[] is not null`,
      },
      {
        package: 'mysql',
        file: 'relay-statements.js',
        find: `straight_join \${outbox} as o force index (primary) on o.shard = ? and o.seq = accepted.seq
where \${IS_HOLDER} and \${stampIn('o')} = \${instant('accepted.stamp')}`,
        replace: `straight_join \${outbox} as o force index (primary) on o.shard = ? and o.seq = accepted.seq
where \${IS_HOLDER}`,
      },
    ],
    checks: ['published'],
    faults: ['failover-in-flight'],
    // Calls that outlive a failover, and shards with no room for what comes after it.
    settings: { leaseMs: 20_000, batchSize: 4, publishTimeoutMs: 60_000 },
  },
  {
    name: 'delete-before-confirm',
    about: 'a message is deleted before the broker has confirmed it',
    replacements: [
      {
        package: 'relay',
        file: 'in-flight-batch.js',
        find: 'const publish = () => publisher.publish(outgoing, { signal: aborting.signal, answered });',
        replace: `const publish = async () => {
                publisher.publish(outgoing, { signal: aborting.signal }).catch(() => undefined);
                return outgoing.map(() => ({ status: 'accepted' }));
            };`,
      },
    ],
    checks: ['published'],
    faults: ['broker-network', 'kill', 'broker-restart', 'queue-full'],
  },
  {
    name: 'trust-expired-lease',
    about: 'a relay that was paused beyond its lease goes on publishing',
    replacements: [
      {
        package: 'core',
        file: 'lease-trust.js',
        find: 'holds: () => clock.monotonicMs() < monotonicEnd && clock.wallMs() < wallEnd',
        replace: 'holds: () => monotonicEnd + wallEnd > 0',
      },
    ],
    checks: ['one owner'],
    faults: ['stop-beyond-lease', 'refused-in-flight'],
    settings: { leaseMs: 1500, batchSize: 50 },
  },
  {
    name: 'claim-in-another-transaction',
    about: 'the claim commits before the effect does',
    replacements: [],
    worker: 'claim-in-another-transaction',
    checks: ['claim and effect', 'one effect'],
    faults: ['poison-consumer', 'kill', 'cut-after-bytes', 'backends-terminated', 'deliveries-twisted'],
  },
  {
    name: 'no-fence',
    about: 'a relay settles what it published although another relay holds the shard by now',
    replacements: [
      {
        package: 'postgres',
        file: 'backlog-statements.js',
        find: `where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share`,
        replace: `where name = $1 and ($2::text is not null or $3::bigint is not null)`,
      },
      {
        package: 'mysql',
        file: 'relay-statements.js',
        find: `l.name = ? and l.owner = ? and l.term = ? and l.expires_at > utc_timestamp(6)`,
        replace: `l.name = ? and (l.owner = ? or l.term = ? or true)`,
      },
    ],
    checks: ['fence'],
    faults: ['settlement-delayed'],
    settings: { leaseMs: 1500 },
  },
  {
    name: 'forget-suspects',
    about: 'nobody remembers which messages were in flight when a relay died',
    replacements: [
      {
        package: 'relay',
        file: 'crash-watch.js',
        find: 'crashes >= SUSPICIOUS_CRASHES ? parse(lease.inFlight) : {}',
        replace: '{}',
      },
    ],
    checks: ['killing message'],
    faults: ['poison-relay', 'late-commits'],
    settings: { leaseMs: 1500 },
  },
  {
    name: 'no-key-lock',
    about: 'lockKeys locks nothing, so that numbers of a key have not the order of the commits',
    replacements: [
      {
        package: 'outbox',
        file: 'create-outbox.js',
        find: 'ports.outbox.append(session, messages, { notify, lockKeys, subscribers })',
        replace: 'ports.outbox.append(session, messages, { notify, subscribers })',
      },
    ],
    checks: ['order'],
    faults: ['late-commits', 'settlement-delayed'],
  },
  {
    name: 'store-duplicates',
    about: 'a send whose deduplication id is remembered stores its message all the same',
    replacements: [
      {
        package: 'core',
        file: 'deduplicated-sends.js',
        find: `if (result.status === 'duplicate')`,
        replace: `if (result.status === 'duplicate' && result.result === undefined)`,
      },
    ],
    checks: ['deduplicated'],
    faults: ['late-commits'],
  },
  {
    name: 'wake-by-the-finisher',
    about: 'the settlement of a message makes the next message of its key visible, instead of the receivers',
    replacements: [
      {
        package: 'postgres',
        file: 'queue-statements.js',
        find: `
update \${queue}
set \${handled}
where \${one} and order_key is not null`,
        replace: `
with woken as (
  update \${queue} as q
  set due_at = pg_catalog.clock_timestamp()
  from \${queue} as s
  where s.place = $2::bigint and s.receipt = $3::uuid and s.due_at > pg_catalog.clock_timestamp() and q.due_at is null
    and q.place = (
      select f.place from \${queue} as f
      where f.topic = s.topic and f.shard = s.shard and f.order_key = s.order_key and f.place > s.place
      order by f.topic, f.shard, f.order_key, f.place
      limit 1
    )
)
delete from \${queue}
where \${one} and order_key is not null`,
      },
      {
        package: 'mysql',
        file: 'queue-statements.js',
        find: `q.receipt = null, q.payload = ''\`;`,
        replace: `q.receipt = null, q.payload = '', q.order_key = concat('handled ', q.place)\`;`,
      },
      {
        package: 'mysql',
        file: 'queue-statements.js',
        find: `settleUnordered: (pairs) => \``,
        replace: `next: (pairs) => \`
select cast(min(f.place) as char) as place
from \${queue} as q force index (primary)
straight_join \${queue} as f force index (queue_order)
  on f.topic = q.topic and f.shard = q.shard and f.order_key = q.order_key and f.place > q.place
where \${rows(pairs)}\`,
        wake: \`
update \${queue} as q force index (primary)
set q.due_at = utc_timestamp(6)
where q.place = ? and q.due_at is null\`,
        settleUnordered: (pairs) => \``,
      },
      {
        package: 'mysql',
        file: 'queue-store.js',
        find: `return (await run(one(pairs), [places, queue])).affected > 0 ? receipts : [];`,
        replace: `{
            const [next] = (await run(this.#sql.next(pairs), [places, queue])).rows;
            if ((await run(one(pairs), [places, queue])).affected === 0) return [];
            if (next?.place != null) await run(this.#sql.wake, [BigInt(next.place)]);
            return receipts;
        }`,
      },
      {
        package: 'mysql',
        file: 'queue-store.js',
        find: `const { affected } = await run(held(found.pairs), [found.places, queue]);`,
        replace: `const nexts = [];
        for (const receipt of valid) {
            const one = pairsOf(pair, [receipt]);
            const [next] = (await run(this.#sql.next(one.pairs), [one.places, queue])).rows;
            if (next?.place != null) nexts.push(BigInt(next.place));
        }
        const { affected } = await run(held(found.pairs), [found.places, queue]);
        for (const place of nexts) await run(this.#sql.wake, [place]);`,
      },
    ],
    checks: ['stuck key', 'queue effect', 'queue order'],
    faults: ['slow-messages', 'late-commits', 'latency'],
  },
  {
    name: 'no-look-at-in-flight',
    about: 'a message that is the first of its key is received although a later one of the key is in flight',
    // On PostgreSQL, a unique index refuses a second receipt of a key.
    engines: ['mysql', 'mariadb'],
    replacements: [
      {
        package: 'sql',
        file: 'queue-rounds.js',
        find: 'return flight === undefined || flight === place || (!isFlightLive && unlocked.has(flight));',
        replace: 'return true;',
      },
    ],
    checks: ['one at a time'],
    faults: ['late-commits', 'slow-messages', 'poison-consumer'],
  },
  {
    name: 'no-release-after-putting-back',
    about: 'a receiver that puts messages back does not make the first message of their key visible',
    replacements: [
      {
        package: 'sql',
        file: 'queue-rounds.js',
        find: 'const freed = [...behind, ...buried,',
        replace: 'const freed = [...buried,',
      },
    ],
    checks: ['stuck key', 'queue effect'],
    faults: ['poison-consumer', 'late-commits', 'kill'],
  },
  ...LOCAL_PLANTS,
  ...HTTP_PLANTS,
]
