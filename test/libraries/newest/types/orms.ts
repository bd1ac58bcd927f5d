// Open transactions of ORMs compile, roots do not, and handlers receive exactly the library's own type.
import type { Transaction as SequelizeTransaction, Sequelize } from '@sequelize/core'
import type { MikroORM as MariadbOrm } from '@mikro-orm/mariadb'
import type { MikroORM as MysqlOrm } from '@mikro-orm/mysql'
import type { EntityManager as CoreEntityManager } from '@mikro-orm/core'
import type { EntityManager as MikroormEntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { InTransaction } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import type { Knex } from 'knex'
import type { Transaction as ObjectionTransaction } from 'objection'
import type { DataSource, EntityManager, QueryRunner, Repository } from 'typeorm'
import { assertType, type Same } from '../../../types/same.ts'
import type { PoolOrRootSentence } from '../../../types/refusal-sentences.ts'

const inbox = createInbox({ database: postgres(), consumer: 'c' })
const outbox = createOutbox({ database: postgres() })
const message = { id: 'm' }

declare const knex: Knex
declare const knexTx: Knex.Transaction
declare const typedKnexTx: Knex.Transaction<{ id: string }, string[]>
declare const objectionTx: ObjectionTransaction
export async function knexAndObjection(): Promise<void> {
  const database = postgres({ db: knex })
  await database.transact(async (tx) => assertType<Same<typeof tx, Knex.Transaction>>())
  const own = createInbox({ database: mysql({ db: knex }), consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, Knex.Transaction>>())
  await inbox.process(knexTx, message, (tx) => assertType<Same<typeof tx, Knex.Transaction>>())
  await inbox.process(typedKnexTx, message, (tx) => assertType<Same<typeof tx, typeof typedKnexTx>>())
  await inbox.process(objectionTx, message, (tx) => assertType<Same<typeof tx, ObjectionTransaction>>())
  await inbox.hasProcessed(knexTx, message)
  // @ts-expect-error a root
  await inbox.process(knex, message, () => {})
  // @ts-expect-error a root
  await inbox.hasProcessed(knex, message)
  // @ts-expect-error a transaction is no root
  postgres({ db: knexTx })
}

declare const dataSource: DataSource
declare const entityManager: EntityManager
declare const queryRunner: QueryRunner
declare const repository: Repository<{ id: string }>
export async function typeorm(): Promise<void> {
  const database = postgres({ db: dataSource })
  await database.transact(async (tx) => assertType<Same<typeof tx, EntityManager>>())
  const own = createInbox({ database: mysql({ db: dataSource }), consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, EntityManager>>())
  await inbox.process(entityManager, message, (tx) => assertType<Same<typeof tx, EntityManager>>())
  await inbox.process(queryRunner, message, (tx) => assertType<Same<typeof tx, QueryRunner>>())
  await inbox.hasProcessed(entityManager, message)
  await inbox.hasProcessed(queryRunner, message)
  // @ts-expect-error a root
  await inbox.process(dataSource, message, () => {})
  // @ts-expect-error a root
  await inbox.hasProcessed(dataSource, message)
  // @ts-expect-error a repository is no transaction
  await outbox.publish(repository, { topic: 't', payload: {} })
}

declare const sequelize: Sequelize
declare const sequelizeTx: SequelizeTransaction
export async function sequelize7(): Promise<void> {
  const database = postgres({ db: sequelize })
  await database.transact(async (tx) => assertType<Same<typeof tx, SequelizeTransaction>>())
  const own = createInbox({ database: mysql({ db: sequelize }), consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, SequelizeTransaction>>())
  await inbox.process(sequelizeTx, message, (tx) => assertType<Same<typeof tx, SequelizeTransaction>>())
  await inbox.hasProcessed(sequelizeTx, message)
  // @ts-expect-error a root
  await inbox.process(sequelize, message, () => {})
  // @ts-expect-error a root
  await inbox.hasProcessed(sequelize, message)
}

declare const orm: MikroORM
declare const injected: MikroormEntityManager
declare const mysqlOrm: MysqlOrm
declare const mariadbOrm: MariadbOrm
declare const coreEntityManager: CoreEntityManager
export async function mikroorm(): Promise<void> {
  const database = postgres({ db: orm.em })
  await database.transact(async (tx) => assertType<Same<typeof tx, typeof orm.em>>())
  const own = createInbox({ database: postgres({ db: injected }), consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, MikroormEntityManager>>())
  const onMysql = createInbox({ database: mysql({ db: mysqlOrm.em }), consumer: 'c' })
  await onMysql.run(message, (tx) => assertType<Same<typeof tx, typeof mysqlOrm.em>>())
  const onMariadb = createInbox({ database: mysql({ db: mariadbOrm.em }), consumer: 'c' })
  await onMariadb.run(message, (tx) => assertType<Same<typeof tx, typeof mariadbOrm.em>>())
  await orm.em.transactional((em) =>
    inbox.process(em, message, (tx) => assertType<Same<typeof tx, typeof em>>()),
  )
  await inbox.process(coreEntityManager, message, (tx) => assertType<Same<typeof tx, CoreEntityManager>>())
  await inbox.hasProcessed(coreEntityManager, message)
  // @ts-expect-error the ORM is no transaction
  await inbox.process(orm, message, () => {})
}

// The compiler says what is wrong.
assertType<Same<InTransaction<Knex>, PoolOrRootSentence>>()
assertType<Same<InTransaction<DataSource>, PoolOrRootSentence>>()
assertType<Same<InTransaction<Sequelize>, PoolOrRootSentence>>()
