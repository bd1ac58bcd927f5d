import type { Plant } from './plant.ts'

/** Known bugs of local consumers. */
export const LOCAL_PLANTS: readonly Plant[] = [
  {
    name: 'remove-after-commit',
    about: 'the row of a local message is removed after COMMIT, instead of in the transaction of its handler',
    replacements: [
      {
        package: 'consumer',
        file: 'local-work.js',
        find: `                await removed(locked, session, call);
`,
        replace: '',
      },
      {
        package: 'consumer',
        file: 'local-work.js',
        find: `        for (const held of done.locked) {
            held.isSettled = true;`,
        replace: `        if (done.locked.length > 0) await this.#ports.transact((tx, session) => removed(done.locked, session, call), {});
        for (const held of done.locked) {
            held.isSettled = true;`,
      },
    ],
    checks: ['local effect'],
    faults: ['stop-beyond-lease', 'kill', 'cut-after-bytes', 'backends-terminated'],
  },
  {
    name: 'remove-by-number',
    about:
      'the row of a local message is found by its number alone, which another server gives out again after a failover',
    replacements: [
      {
        package: 'postgres',
        file: 'local-statements.js',
        find: `o.shard = $5::smallint and o.seq = $6::bigint and \${stampIn('o')} = $7::timestamptz`,
        replace: `$5::smallint is not null and o.seq = $6::bigint and $7::timestamptz is not null`,
      },
      {
        package: 'postgres',
        file: 'local-statements.js',
        find: `o.shard = $2::smallint and o.seq = $3::bigint and \${stampIn('o')} = $4::timestamptz
returning`,
        replace: `$2::smallint is not null and o.seq = $3::bigint and $4::timestamptz is not null
returning`,
      },
      {
        package: 'postgres',
        file: 'local-statements.js',
        find: `o.shard = \${shard}::smallint and o.seq = wanted.seq and \${stampIn('o')} = wanted.stamp\${more}`,
        replace: `\${shard}::smallint is not null and o.seq = wanted.seq\${more}`,
      },
      {
        package: 'postgres',
        file: 'shared-settlement-statements.js',
        find: `o.seq = wanted.seq
      and \${stampIn('o')} = wanted.stamp and held.found`,
        replace: `o.seq = wanted.seq and held.found`,
      },
      {
        package: 'mysql',
        file: 'local-statements.js',
        find: `where \${place('o')} and o.seq = ? and \${stampIn('o')} = \${instant('?')}`,
        replace: `where \${place('o')} and o.seq = ? and \${instant('?')} is not null`,
      },
      {
        package: 'mysql',
        file: 'local-statements.js',
        find: `where consumer = ? and shard = ? and seq = ? and \${stampIn(localOutbox)} = \${instant('?')}`,
        replace: `where consumer = ? and shard = ? and seq = ? and \${instant('?')} is not null`,
      },
      {
        package: 'mysql',
        file: 'local-statements.js',
        find: `where \${stampIn('o')} = \${instant('j.stamp')}`,
        replace: `where \${instant('j.stamp')} is not null`,
      },
    ],
    checks: ['local effect'],
    faults: ['failover-in-flight'],
    // Messages that wait for a handler during a failover, in a process that still owns the shard after it.
    settings: { leaseMs: 20_000 },
    localWorkMs: 800,
  },
  {
    name: 'batch-removes-less',
    about: 'a batch takes its messages for locked, and goes on although it has removed fewer of them',
    replacements: [
      {
        package: 'consumer',
        file: 'local-shard.js',
        find: `new GatheredLocks((session, rows) => store.lock(session, lease, at, rows))`,
        replace: `new GatheredLocks(async (session, rows) => rows)`,
      },
      {
        package: 'consumer',
        file: 'local-shard.js',
        find: `            await store.remove(session, at, rows);
            return rows;`,
        replace: `            await store.remove(session, at, rows).catch((error) => {
                if (error.code !== 'TXBOX_TRANSACTION_ABORTED') throw error;
            });
            return rows;`,
      },
    ],
    checks: ['local effect'],
    faults: ['stop-beyond-lease', 'slow-messages'],
  },
]
