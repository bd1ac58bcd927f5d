import { Pool } from 'pg'

/** The state of an order after a change, and the number of the change. */
export interface OrderChanged {
  readonly order: string
  readonly cents: number
  readonly version: number
}

export const { AMQP_URL = 'amqp://localhost', BILLING = 'bills', VIEW = 'view', PORT = '3000' } = process.env
export const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 16 })
pool.on('error', console.error)
process.once('disconnect', () => process.exit(1)) // with the program that has started it
