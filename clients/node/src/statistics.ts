// What the driver counts: calls by procedure, bytes by connection, latencies in a histogram of
// three significant digits. Recording allocates nothing. Does not know where calls go.

/**
 * Counts of latencies in microseconds with a relative error below 1/256: log-linear buckets, from 1
 * us to 17 minutes.
 */
export class Histogram {
  private readonly counts = new Float64Array(128 * 24)
  private total = 0
  private sum = 0
  private largest = 0

  record(microseconds: number): void {
    const value = microseconds < 1 ? 1 : microseconds
    this.total += 1
    this.sum += value
    if (value > this.largest) this.largest = value
    this.counts[Histogram.bucket(value)] += 1
  }

  private static bucket(value: number): number {
    const whole = value > 1073741823 ? 1073741823 : value | 0
    // Values below 256 have a bucket each; above, every doubling has 128.
    if (whole < 256) return whole
    const doubling = 24 - Math.clz32(whole)
    return 128 * (doubling + 1) + ((whole >>> doubling) - 128)
  }

  /** The highest value of a bucket. */
  private static top(bucket: number): number {
    if (bucket < 256) return bucket
    const doubling = Math.floor(bucket / 128) - 1
    return (((bucket % 128) + 129) << doubling) - 1
  }

  get count(): number {
    return this.total
  }
  get mean(): number {
    return this.total === 0 ? 0 : this.sum / this.total
  }
  get max(): number {
    return this.largest
  }

  /** The value in microseconds that a share `quantile` (0 to 1) of the calls does not exceed. */
  quantile(quantile: number): number {
    const wanted = Math.max(1, Math.ceil(this.total * quantile))
    let seen = 0
    for (let bucket = 0; bucket < this.counts.length; bucket++) {
      seen += this.counts[bucket]!
      if (seen >= wanted) return Math.min(Histogram.top(bucket), this.largest)
    }
    return this.largest
  }

  add(other: Histogram): void {
    for (let bucket = 0; bucket < this.counts.length; bucket++) this.counts[bucket] += other.counts[bucket]!
    this.total += other.total
    this.sum += other.sum
    this.largest = Math.max(this.largest, other.largest)
  }

  summary(): LatencySummary {
    return {
      count: this.total,
      mean: this.mean,
      p50: this.quantile(0.5),
      p95: this.quantile(0.95),
      p99: this.quantile(0.99),
      p999: this.quantile(0.999),
      p9999: this.quantile(0.9999),
      p99999: this.quantile(0.99999),
      max: this.largest,
    }
  }
}

/** Latencies in microseconds. */
export interface LatencySummary {
  count: number
  mean: number
  p50: number
  p95: number
  p99: number
  p999: number
  p9999: number
  p99999: number
  max: number
}

/** What one procedure's calls came to. */
export class ProcedureCounts {
  /** Answered with success. */
  succeeded = 0
  /** Answered with a failure: rolled back. */
  failed = 0
  /** No answer in time, or none because a connection broke: may have committed. */
  unknown = 0
  /** Answers that came after their call had timed out. */
  late = 0
  readonly latency = new Histogram()
}

export interface ProcedureStatistics {
  procedure: string
  succeeded: number
  failed: number
  unknown: number
  late: number
  /** Microseconds from handing the call to the driver's socket to reading its answer. */
  latency: LatencySummary
}

export interface ConnectionStatistics {
  address: string
  connected: boolean
  hostId: number | null
  /** Calls without an answer on this connection, those of the driver itself included. */
  outstanding: number
  bytesSent: number
  bytesReceived: number
  reconnects: number
}

export interface Statistics {
  /** Milliseconds that the figures cover. */
  durationMs: number
  succeeded: number
  failed: number
  unknown: number
  late: number
  /** Calls of yours without an answer now, sent or waiting for room. */
  outstanding: number
  queued: number
  latency: LatencySummary
  procedures: ProcedureStatistics[]
  connections: ConnectionStatistics[]
}

/** Counts of one span of time. */
export class Recorder {
  private readonly procedures = new Map<string, ProcedureCounts>()
  readonly began = performance.now()

  of(procedure: string): ProcedureCounts {
    let counts = this.procedures.get(procedure)
    if (!counts) {
      counts = new ProcedureCounts()
      this.procedures.set(procedure, counts)
    }
    return counts
  }

  report(connections: ConnectionStatistics[], outstanding: number, queued: number): Statistics {
    const all = new Histogram()
    const sums = { succeeded: 0, failed: 0, unknown: 0, late: 0 }
    const procedures: ProcedureStatistics[] = []
    for (const [procedure, counts] of this.procedures) {
      const { succeeded, failed, unknown, late, latency } = counts
      procedures.push({ procedure, succeeded, failed, unknown, late, latency: latency.summary() })
      all.add(latency)
      sums.succeeded += succeeded
      sums.failed += failed
      sums.unknown += unknown
      sums.late += late
    }
    return {
      durationMs: performance.now() - this.began,
      ...sums,
      outstanding,
      queued,
      latency: all.summary(),
      procedures,
      connections,
    }
  }
}
