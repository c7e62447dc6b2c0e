// `holdfast/idempotency`: work that must happen once, and whose repeats are told how it ended.
export { type Codec, failureCodec, plainCodec } from './codec.js'
export type {
  BeginRequest,
  Begun,
  End,
  Records,
  RecordsCapabilities,
  RecordView,
  RunId,
  StoredEnd,
  SyncTransactionRecords,
  TransactionRecords,
} from './contract.js'
export {
  type Failure,
  InProgressError,
  KeyReusedError,
  NotRecordedError,
  RecordedFailureError,
  UnknownOutcomeError,
} from './errors.js'
export { fingerprintOf, fingerprintOfJson, keyOf } from './fingerprint.js'
export { onceInTransaction, type TransactionRun } from './in-transaction.js'
export { type OnceResult, once, onceResult } from './once.js'
export type { FailureDecision, FailureInfo, OnceOptions, RecordOptions, UnknownDecision } from './options.js'
export type { RunInfo } from './run.js'
