import type { Target } from '../engines/target.ts'

/** A table with columns of all types whose values a program sees in their own way. */
export async function createTableOfAllTypes(target: Target): Promise<void> {
  await target.sql(
    target.engine === 'postgres'
      ? `create table things (id text primary key, small smallint, big bigint, price numeric(20,4), ratio double precision, rough real,
         flag boolean, doc jsonb, plain json, at timestamptz, wall timestamp, day date, bytes bytea, words text, mood varchar(20),
         version bigint not null)`
      : `create table things (id varchar(100) primary key, small smallint, big bigint, price decimal(20,4), ratio double, rough float,
         flag boolean, doc json, plain json, at datetime(6), wall datetime(3), day date, bytes varbinary(300), words text character set utf8mb4,
         mood varchar(20), version bigint not null)`,
  )
}

const TEXT =
  'Grüße, \u{1f680} \u2028 "quotes", \'\\ \\x00 %s $1 :a ? ?? {a,NULL} \r\n\t e\u0301 \ufeff --; /*'

/** A value of each type. MySQL and MariaDB have numbers for truth values: a program sees 1 for `flag`. */
export const VALUES = {
  ...{ small: -7, big: 2n ** 53n + 1n, price: '12345678901234.5600', ratio: 0.1, rough: 0.5, flag: true },
  doc: { nested: [1, null, TEXT], flag: false },
  plain: [1, 'two'],
  at: new Date('2026-01-31T23:59:59.123Z'),
  wall: new Date('1999-12-31T00:00:00.001Z'),
  ...{ day: '2024-02-29', bytes: Uint8Array.from({ length: 256 }, (_, n) => n), words: TEXT, mood: null },
}
