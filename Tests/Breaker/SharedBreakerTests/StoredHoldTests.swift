import SharedBreaker
import TestSupport
import Testing

/// Holds in the file of a store.
@Suite struct StoredHoldTests {
  @Test func `another process reads all of a hold from the file`() throws {
    let stage = try Stage()
    let author = try stage.sharedStore().breaker(
      "llm", policy: BreakerPolicy(holdMax: .seconds(90)))
    try author.acquire().report(.hold(for: .seconds(600), reason: "HTTP 429 – zu viel"))
    let read = try stage.sharedStore().breaker("llm").snapshot()
    #expect(read.hold == author.snapshot().hold)
    #expect(read.hold?.reason == "HTTP 429 – zu viel")
    #expect(read.hold?.askedFor == .seconds(600) && read.hold?.length == .seconds(90))
    #expect(read.hold?.setBy?.hasPrefix("process ") == true)
    #expect(read.totals.holds == 1)
  }

  @Test func `rejections by a hold are counted for all processes at once`() throws {
    let stage = try Stage()
    let breakers = try (0..<2).map { _ in try stage.sharedStore().breaker("llm") }
    try breakers[0].hold(for: .seconds(60))
    for breaker in breakers {
      for _ in 0..<5 { #expect(throws: BreakerError.self) { try breaker.run {} } }
    }
    for breaker in breakers {
      #expect(breaker.snapshot().totals.held == 10)
      #expect(breaker.snapshot().totals.rejections == 0)
    }
    try breakers[0].endHold()
    #expect(breakers[1].snapshot().totals.held == 10)
  }

  @Test(arguments: ["X'00'", "zeroblob(96)", "zeroblob(200)", "randomblob(1000)", "NULL"])
  func `a hold that is damaged holds no call`(blob: String) throws {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker("llm")
    try breaker.hold(for: .seconds(60), reason: "quota")
    _ = try Database.rows(stage.store, "UPDATE breaker SET hold = \(blob), revision = revision + 1")
    let other = try stage.sharedStore().breaker("llm")
    try other.run {}
    try other.acquire().report(.failure())
    #expect(other.snapshot().consecutiveFailures == 1)
    #expect(other.snapshot().totals.held < 1 << 40)
  }

  @Test(arguments: 7..<25, [Int64.max, .min, -1])
  func `an impossible number of a hold neither ends nor blocks a process`(
    index: Int, number: Int64
  ) throws {
    let stage = try Stage()
    let breaker = try stage.sharedStore().breaker("llm")
    try breaker.hold(for: .seconds(60), reason: "quota")
    let bytes = unsafe withUnsafeBytes(of: number.littleEndian) { bytes in
      unsafe bytes.map { String(UInt16($0) + 0x100, radix: 16).dropFirst() }.joined()
    }
    _ = try Database.rows(
      stage.store,
      """
      UPDATE breaker SET revision = revision + 1, hold = CAST(substr(hold, 1, \(index * 8)) ||
        X'\(bytes)' || substr(hold, \(index * 8 + 9)) AS BLOB)
      """)
    let other = try stage.sharedStore().breaker("llm")
    _ = "\(other.snapshot()) \(other.snapshot().hold.map { "\($0.since)" } ?? "")"
    try other.hold(for: .seconds(90))
    other.acquireAnyway()
    stage.clock.advance(by: .seconds(600))
    try other.run {}
    #expect(other.snapshot().hold == nil)
  }
}

extension Breaker {
  /// Asks for a permit, whatever the answer.
  fileprivate func acquireAnyway() {
    do { try acquire().ignore() } catch {}
  }
}
