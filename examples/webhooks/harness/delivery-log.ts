import { sql, type Kysely } from 'kysely'

export interface SenderTables {
  deliveries: { delivery_id: string; answer: string }
}

/** The log of the sender: which webhooks it has sent, and the answers of the receiver. */
export class DeliveryLog {
  readonly #db: Kysely<SenderTables>
  #unwritten: SenderTables['deliveries'][] = []

  constructor(db: Kysely<SenderTables>) {
    this.#db = db
  }

  async createTable(): Promise<void> {
    await sql`create table deliveries (delivery_id varchar(200) not null, answer varchar(200) not null)`.execute(
      this.#db,
    )
  }

  add(deliveryId: string, answer: string): void {
    this.#unwritten.push({ delivery_id: deliveryId, answer })
  }

  async write(): Promise<void> {
    const rows = this.#unwritten
    this.#unwritten = []
    if (rows.length > 0) await this.#db.insertInto('deliveries').values(rows).execute()
  }
}
