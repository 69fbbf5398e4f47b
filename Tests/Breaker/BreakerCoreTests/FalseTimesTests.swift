import Testing

@testable import BreakerCore

/// Times from a process whose boot clock is not the host's.
@Suite struct FalseTimesTests {
  /// A time that libfaketime returns for the boot clock.
  private static let away = Instant(nanoseconds: 1_790_000_000_000_000_000)

  private static func corrected(
    _ bench: Bench, _ change: (inout BreakerRecord) -> Void
  ) -> (record: BreakerRecord, wasFalse: Bool) {
    var record = bench.record
    change(&record)
    let wasFalse = record.correctFalseTimes(at: bench.now.boot)
    return (record, wasFalse)
  }

  @Test func `a record with the host's times is left as it is`() {
    var bench = Bench()
    bench.trip(for: .seconds(30))
    bench.set(.observe, for: .seconds(86_400))
    let (record, wasFalse) = Self.corrected(bench) { _ in }
    #expect(!wasFalse)
    #expect(record == bench.record)
  }

  @Test func `an open time that ends further ahead than its length is over`() {
    var bench = Bench()
    bench.trip(for: .seconds(30))
    #expect(bench.state == .open)
    let (record, wasFalse) = Self.corrected(bench) { $0.openUntil = Self.away }
    #expect(wasFalse)
    #expect(record.openRemaining(at: bench.now.boot) == 0)
    // A length beyond every policy's does not make it true.
    let longer = Self.corrected(bench) {
      $0.openUntil = Self.away
      $0.openNanoseconds = .max
    }
    #expect(longer.record.openRemaining(at: bench.now.boot) == 0)
    // The clocks of two processors may differ a little.
    let close = Self.corrected(bench) { $0.openUntil = $0.openUntil?.advanced(by: 1_000_000) }
    #expect(!close.wasFalse)
  }

  @Test func `a mode that ends further ahead than it lasts has expired`() {
    var bench = Bench()
    bench.set(.forcedOpen, for: .seconds(60))
    let (record, wasFalse) = Self.corrected(bench) { $0.mode.until = Self.away }
    #expect(wasFalse)
    #expect(record.mode(at: bench.now.boot) == .automatic)
  }

  @Test func `a lease that outlasts every policy frees its slot`() {
    let (bench, _) = LeaseTests.probing()
    let (record, wasFalse) = Self.corrected(bench) { $0.leases[0].deadline = Self.away }
    #expect(wasFalse)
    #expect(record.leases.isEmpty)
  }

  @Test func `an instant in the future is forgotten or becomes now`() {
    let bench = Bench()
    let now = bench.now.boot
    let process = ProcessIdentity(pid: 1, startTicks: 1, pidNamespace: 1)
    var window = TimeWindow(length: 60_000_000_000)
    window.add(isFailure: true, isSlow: false, at: Self.away)
    let (record, wasFalse) = Self.corrected(bench) {
      $0.streakStartedAt = Self.away
      $0.lastCountedFailureAt = Self.away
      $0.closedAt = Self.away
      $0.suspectedAt = Self.away
      $0.tally.since = Self.away
      $0.failureTimes = [now, Self.away]
      $0.reporters = [
        Reporter(process: process, at: now, call: 0),
        Reporter(process: process, at: Self.away, call: 0),
      ]
      $0.window = .time(window)
    }
    #expect(wasFalse)
    #expect(record.streakStartedAt == now)
    #expect(record.lastCountedFailureAt == nil)
    #expect(record.closedAt == now)
    #expect(record.suspectedAt == now)
    #expect(record.tally.since == now)
    #expect(record.failureTimes == [now])
    #expect(record.reporters.map(\.at) == [now])
    #expect(record.window == .time(TimeWindow(length: 60_000_000_000)))
    let calls = Self.corrected(bench) { $0.window = .last(LastCallsWindow(capacity: 3)) }
    #expect(!calls.wasFalse)
    let failed = Self.corrected(bench) { $0.lastCountedFailureAt = now }
    #expect(!failed.wasFalse)
    #expect(failed.record.lastCountedFailureAt == now)
  }

  @Test func `a hook is not held up by a deadline from a false clock`() {
    var record = HookRecord(handled: 7)
    record.boot = 1
    record.owner = .worker
    record.until = Self.away
    let request = HookRequest(
      hook: "pager", name: nil, process: .worker, timeout: .seconds(60), attempts: 3)
    let event = RecordedEvent(
      id: 8, atMilliseconds: 0, name: "api", change: .transition(from: .closed, to: .open),
      reason: nil, pid: 1, program: "test", previous: 7)
    let turn = record.answer(
      request, at: Moment.start.boot, boot: 1, lineage: 1, isGone: { _ in false }
    ) { $0 < 8 ? event : nil }
    guard case .run = turn else {
      Issue.record("\(turn)")
      return
    }
  }
}
