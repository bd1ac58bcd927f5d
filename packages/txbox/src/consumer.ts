export * from '@txbox/consumer'
