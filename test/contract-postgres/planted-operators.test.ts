import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { migrate } from '@txbox/postgres'
import { deadLetterStatements } from '../../packages/postgres/src/operate/dead-letter-statements.ts'
import { garbageStatements } from '../../packages/postgres/src/operate/garbage-statements.ts'
import { dedupLeaseStatements } from '../../packages/postgres/src/dedup/dedup-lease-statements.ts'
import { inboxStatements } from '../../packages/postgres/src/inbox/inbox-statements.ts'
import { inspectionStatements } from '../../packages/postgres/src/operate/inspection-statements.ts'
import { localInspectionStatements } from '../../packages/postgres/src/operate/local-inspection-statements.ts'
import { removalStatements } from '../../packages/postgres/src/operate/removal-statements.ts'
import { queueStatements } from '../../packages/postgres/src/queue/queue-statements.ts'
import { leaseStatements } from '../../packages/postgres/src/relay/lease-statements.ts'
import { localParkedStatements } from '../../packages/postgres/src/local/local-parked-statements.ts'
import { localStatements } from '../../packages/postgres/src/local/local-statements.ts'
import { subscriptionStatements } from '../../packages/postgres/src/local/subscription-statements.ts'
import { notifyStatements } from '../../packages/postgres/src/notify/notify-statements.ts'
import { outboxStatements } from '../../packages/postgres/src/outbox/outbox-statements.ts'
import { parkedStatements } from '../../packages/postgres/src/relay/parked-statements.ts'
import { relayStatements } from '../../packages/postgres/src/relay/relay-statements.ts'
import { versionBufferStatements } from '../../packages/postgres/src/versions/version-buffer-statements.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { poolOf } from '../support/engines/postgres-pool.ts'
import { useTarget } from '../support/engines/target.ts'

/** The types that are combined in the statements of txbox. */
const TYPES =
  'text name bool int2 int4 int8 float8 numeric interval timestamptz oid regclass tid bytea "char" xid regtype text[] int8[] tid[]'.split(
    ' ',
  )
const OPERATORS = '+ - * / || = <> < <= > >='.split(' ')

/** Functions of another user, in a schema that every role searches. PostgreSQL chooses the best match. */
const FUNCTIONS = [
  'hashtextextended(text, integer)',
  'unnest(text[])',
  'unnest(text[], text[])',
  'floor(integer)',
  'count(text)',
]

// A COPY cannot be prepared. `copy` is the text of `read` in another format.
const { copy: _, ...relay } = relayStatements('txbox')

const statements = Object.entries({
  inbox: inboxStatements('txbox'),
  outbox: outboxStatements('txbox'),
  notify: notifyStatements,
  relay,
  parked: parkedStatements('txbox'),
  local: localStatements('txbox'),
  'local-parked': localParkedStatements('txbox'),
  subscription: subscriptionStatements('txbox'),
  lease: leaseStatements('txbox'),
  'dead-letter': deadLetterStatements('txbox'),
  'dedup-lease': dedupLeaseStatements('txbox'),
  garbage: garbageStatements('txbox'),
  inspection: inspectionStatements('txbox'),
  'local-inspection': localInspectionStatements('txbox'),
  removal: removalStatements('txbox'),
  queue: queueStatements('txbox'),
  'version-buffer': versionBufferStatements('txbox'),
}).flatMap(([area, texts]) => Object.entries(texts).map(([name, text]) => [`${area}.${name}`, text] as const))

describe('functions and operators that another user has planted in public', () => {
  const target = useTarget()
  let client: Client

  beforeAll(async () => {
    client = new Client(await databaseUrl(target))
    await client.connect()
    await client.query(`
      do $$
      declare l text; r text; o text;
      begin
        foreach l in array string_to_array('${TYPES.join(',')}', ',') loop
          foreach r in array string_to_array('${TYPES.join(',')}', ',') loop
            execute format('create function public.planted(%s, %s) returns bool language plpgsql as
              $f$ begin raise exception ''planted''; end $f$', l, r);
            foreach o in array string_to_array('${OPERATORS.join(' ')}', ' ') loop
              begin
                execute format('create operator public.%s (leftarg = %s, rightarg = %s, function = public.planted)', o, l, r);
              exception when others then
                raise exception 'operator % (%, %): %', o, l, r, sqlerrm;
              end;
            end loop;
          end loop;
        end loop;
      end $$`)
    for (const signature of FUNCTIONS) {
      await client.query(`create function public.${signature} returns bigint language plpgsql as
        $$ begin raise exception 'planted ${signature}'; end $$`)
    }
  })
  afterAll(() => client.end())

  /** The dependencies of a statement on public: the server records the dependencies of the body of a function. */
  async function takenFromPublic(text: string): Promise<readonly string[]> {
    await client.query(`prepare probe as ${text}`)
    const { rows: types } = await client.query<{ types: string }>(
      "select array_to_string(parameter_types, ', ') as types from pg_prepared_statements where name = 'probe'",
    )
    await client.query('deallocate probe')
    await client.query(
      `create function public.probe(${types[0]!.types}) returns void begin atomic ${text}; end`,
    )
    await client.query('set search_path = pg_catalog')
    const { rows } = await client.query<{ taken: string }>(
      `select case refclassid
         when 'pg_operator'::regclass then refobjid::regoperator::text else refobjid::regprocedure::text end as taken
       from pg_depend
       where classid = 'pg_proc'::regclass and objid = 'public.probe'::regproc
         and refclassid in ('pg_operator'::regclass, 'pg_proc'::regclass)`,
    )
    await client.query('drop function public.probe')
    await client.query('reset search_path')
    return rows.map(({ taken }) => taken)
  }

  test.for(statements)('%s uses none of the planted functions and operators', async ([, text]) => {
    expect(await takenFromPublic(text)).toEqual([])
  })

  test('a planted operator that matches better is detected by this test', async () => {
    expect(await takenFromPublic("select 2::bigint * interval '1 second', unnest($1::text[])")).not.toEqual(
      [],
    )
  })

  test('migrate, processBatch and publish work, and call none of the planted functions', async () => {
    const pool = poolOf(await databaseUrl(target), { max: 2 })
    onTestFinished(() => pool.end())
    expect((await migrate(pool, { schema: 'beside' })).applied.length).toBeGreaterThan(0)
    const root = target.open(target.kinds[1]!)
    onTestFinished(() => root.close())
    const transaction = await root.begin()
    const inbox = createInbox({ database: root.database, consumer: 'planted' })
    const { outcomes } = await inbox.processBatch(
      transaction.tx,
      [{ id: 'a' }, { id: 'b' }],
      async () => undefined,
    )
    expect(outcomes.length).toBe(2)
    await createOutbox({ database: root.database }).publish(transaction.tx, [
      { topic: 't', payload: 1 },
      { topic: 't', payload: 2 },
    ])
    await transaction.commit()
  })
})
