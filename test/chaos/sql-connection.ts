import { createConnection, type Connection } from 'mysql2/promise'
import { Client } from 'pg'

type Row = Readonly<Record<string, unknown>>

/** A connection to a database of any kind, without txbox. */
export class SqlConnection {
  readonly #client: Client | Connection

  private constructor(client: Client | Connection) {
    this.#client = client
  }

  static async to(url: string): Promise<SqlConnection> {
    if (url.startsWith('mysql:')) {
      const connection = await createConnection({ uri: url, connectTimeout: 5000 })
      connection.on('error', () => undefined)
      return new SqlConnection(connection)
    }
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 5000 })
    client.on('error', () => undefined)
    await client.connect()
    return new SqlConnection(client)
  }

  async query(text: string): Promise<readonly Row[]> {
    if (this.#client instanceof Client) return (await this.#client.query<Row>(text)).rows
    const [rows] = await this.#client.query(text)
    return rows as Row[]
  }

  /** Resolves when the server or the network has ended the connection. */
  async lost(): Promise<void> {
    const client = this.#client
    await new Promise<void>((resolve) => {
      if (client instanceof Client) client.once('end', () => resolve())
      else client.once('error', () => resolve())
    })
  }

  end(): void {
    if (this.#client instanceof Client) void this.#client.end()
    else this.#client.destroy()
  }
}

/** Runs one statement on a connection of its own. */
export async function query(url: string, text: string): Promise<readonly Row[]> {
  const connection = await SqlConnection.to(url)
  try {
    return await connection.query(text)
  } finally {
    connection.end()
  }
}
