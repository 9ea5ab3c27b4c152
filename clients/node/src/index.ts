// What applications use.

export { Client, type CallOptions, type ClientEvents, type ClientOptions } from './client.js'
export { CallError, ConnectError, FerriteError, Status, ValueError, type Outcome } from './errors.js'
export { ProtocolError, Table, type Column, type Row } from './reader.js'
export { Result } from './result.js'
export { Histogram, type ConnectionStatistics, type LatencySummary, type ProcedureStatistics, type Statistics } from './statistics.js'
export {
  decimal,
  Timestamp,
  Type,
  typed,
  Typed,
  type BigintMode,
  type DecimalMode,
  type Parameter,
  type Point,
  type Polygon,
  type TypeCode,
  type Value,
} from './types.js'
