/** Distinct ordering keys. */
const KEYS = 1000
const PAYLOAD_BYTES = 500

const ITEM = { sku: 'A-1000-42', quantity: 2, unitPrice: '19.90', currency: 'EUR' }
const frame = { orderId: 'order-1000', total: '119.40', items: [ITEM, ITEM, ITEM], note: '' }
const NOTE = 'x'.repeat(PAYLOAD_BYTES - Buffer.byteLength(JSON.stringify(frame)))

/** A message whose payload is 500 bytes of JSON, of one of 1000 keys. */
export function anyOrder(): { topic: string; type: string; key: string; payload: object } {
  const orderId = `order-${1000 + Math.floor(Math.random() * KEYS)}`
  return { topic: 'orders', type: 'order.paid', key: orderId, payload: { ...frame, orderId, note: NOTE } }
}
