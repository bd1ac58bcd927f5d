export { publisherContract } from './publisher/publisher-contract.ts'
export type { ContractCase } from './publisher/contract-case.ts'
export type {
  ArrivedMessage,
  NetworkUnderTest,
  PublisherContractOptions,
  PublisherOffer,
  PublisherUnderTest,
  ReadMessage,
} from './publisher/publisher-under-test.ts'
export type { OutboxMessage, PublishResult, Publisher } from '@txbox/core'
