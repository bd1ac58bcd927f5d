export { publisherContract } from './publisher/publisher-contract.ts'
export { sourceContract } from './source/source-contract.ts'
export type { CaseContext, ContractCase } from './cases/contract-case.ts'
export type {
  ArrivedMessage,
  NetworkUnderTest,
  PublisherContractOptions,
  PublisherUnderTest,
  ReadMessage,
} from './publisher/publisher-under-test.ts'
export type {
  SettlingTransaction,
  SourceContractOptions,
  SourceNetwork,
  SourceUnderTest,
} from './source/source-under-test.ts'
export type {
  Delivery,
  OpenSource,
  OutboxMessage,
  PublishResult,
  Publisher,
  Source,
  SourceTraits,
} from '@txbox/core'
