// A call of an application, from its making to its end, which comes once.

import type { Call, Connection } from './connection.js'
import { CallError, outcomeOf, Status } from './errors.js'
import type { Response } from './reader.js'
import { Result } from './result.js'
import type { Parameter } from './types.js'
import type { Destination } from './writer.js'

/** What a call tells its client. */
export interface Ledger {
  /** A dispatched call ended. */
  finished(): void
  /** A dispatched call was never sent: dispatches it again. False if there is no connection. */
  again(call: PendingCall): boolean
  count(procedure: string, what: 'succeeded' | 'failed' | 'unknown' | 'late', latencyUs?: number): void
}

/** A call from `submit` to its end. */
export class PendingCall implements Call {
  connection: Connection | null = null
  over = false
  private timer: NodeJS.Timeout | null = null
  private stopListening: (() => void) | null = null

  constructor(
    private readonly ledger: Ledger,
    readonly procedure: string,
    readonly name: Buffer,
    readonly parameters: readonly Parameter[],
    readonly destination: Destination | undefined,
    readonly timeoutMs: number,
    private readonly resolve: (result: Result) => void,
    private readonly reject: (error: Error) => void,
  ) {}

  /** Waits for room or for a connection: its time runs already. */
  wait(): void {
    if (this.timeoutMs > 0) {
      this.timer = setTimeout(() => {
        if (this.connection === null) {
          this.ended(new CallError(`the call could not be sent within ${this.timeoutMs} ms`, 'HYT00', Status.REQUEST_TIMEOUT, 'not-sent', this.procedure))
        }
      }, this.timeoutMs)
      this.timer.unref()
    }
  }

  listen(signal: AbortSignal): void {
    const abort = (): void => {
      const sent = this.connection
      if (this.over) return
      sent?.abandon(this)
      this.ended(
        sent
          ? new CallError('the call was given up after it was sent; the transaction may commit', '08007', Status.RESPONSE_UNKNOWN, 'unknown', this.procedure)
          : new CallError('the call was given up before it was sent', '57014', Status.CLIENT_ERROR_NOT_SENT, 'not-sent', this.procedure),
      )
    }
    signal.addEventListener('abort', abort, { once: true })
    this.stopListening = () => signal.removeEventListener('abort', abort)
  }

  answered(response: Response, latencyUs: number): void {
    const { status } = response
    this.ledger.count(this.procedure, status === Status.SUCCESS ? 'succeeded' : outcomeOf(status) === 'unknown' ? 'unknown' : 'failed', latencyUs)
    if (!this.finish()) return
    if (status === Status.SUCCESS) this.resolve(new Result(response))
    else {
      const text = response.statusText ?? `status ${status}`
      this.reject(new CallError(text, response.code ?? 'HY000', status, outcomeOf(status), this.procedure, response.applicationStatus, response.applicationStatusText))
    }
  }

  ended(error: CallError): void {
    if (error.outcome === 'unknown') this.ledger.count(this.procedure, 'unknown')
    if (this.finish()) this.reject(error)
  }

  refused(error: Error): void {
    this.over = true
    this.settle()
    this.reject(error)
  }

  late(): void {
    this.ledger.count(this.procedure, 'late')
  }

  unsent(error: CallError): void {
    if (!this.over && !this.ledger.again(this)) this.ended(error)
  }

  private finish(): boolean {
    if (this.over) return false
    this.over = true
    this.settle()
    if (this.connection) this.ledger.finished()
    return true
  }

  private settle(): void {
    if (this.timer) clearTimeout(this.timer)
    this.timer = null
    this.stopListening?.()
    this.stopListening = null
  }
}
