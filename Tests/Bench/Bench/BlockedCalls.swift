import Glibc
import SharedBreaker
import TestSupport

/// How long calls block their thread while another process holds the store.
enum BlockedCall: String, CaseIterable {
  case success, failure, trippingFailure, asynchronous, inTime, retried
  case permit, decision, token, report
  case snapshot, snapshots, names, history, declarations, existing
  case reset, trip, force, policy, delete
  case declaring, connecting, following, hook, closing

  /// The way in which the other process holds the store.
  enum Hold: String, CaseIterable {
    case writer = "a writer, store in use"
    case writerAtStart = "a writer, store not opened yet"

    /// Another process has begun to create the store, and does not continue.
    case maker = "its maker, store not made yet"

    var sql: String {
      self == .maker ? "BEGIN EXCLUSIVE" : "BEGIN IMMEDIATE"
    }

    /// The calls to measure; a report needs a token, and so a store that exists.
    var calls: [BlockedCall] { BlockedCall.allCases.filter { self != .maker || $0 != .report } }
  }

  static let lockTimeout = StoreOptions().lockTimeout

  /// The longest silence, in seconds, of the actor that the call is made on.
  ///
  /// An actor that is free beats every millisecond. A call that blocks its thread silences it.
  private func silence(in room: Room, isWarm: Bool) async throws -> Double {
    let store = SharedStore(path: room.store)
    let breaker = try store.breaker("blocked", policy: BreakerPolicy(maxFailures: 4))
    if isWarm {
      try await breaker.acquire().fail()
      if self == .trippingFailure { try await breaker.acquire().fail() }
    }
    let token = self == .report ? try breaker.acquireToken() : nil
    _ = try Parent.awaitStart()
    return await Pulse().longestSilence(of: self, on: breaker, of: store, token)
  }

  nonisolated(nonsending) func make(
    on breaker: Breaker, of store: SharedStore, _ token: PermitToken?
  ) async throws {
    switch self {
    case .success: try await breaker.run {}
    case .failure, .trippingFailure: try await breaker.run { throw BenchError("refused") }
    case .asynchronous: try await breaker.run { () async throws in await Task.yield() }
    case .inTime: try await breaker.run(timeout: .seconds(1)) { throw BenchError("refused") }
    case .retried:
      try await breaker.run(retry: .fixed(attempts: 3, delay: .milliseconds(1))) {
        () async throws in
        throw BenchError("refused")
      }
    case .permit: try await breaker.acquire().fail()
    case .decision: if case .permitted(let permit) = try await breaker.decide() { permit.fail() }
    case .token: _ = try breaker.acquireToken()
    case .report: if let token { try store.report(token, .failure(error: "refused")) }
    case .snapshot: _ = breaker.snapshot()
    case .snapshots: _ = try store.snapshots()
    case .names: _ = try store.names()
    case .history: _ = try store.history()
    case .declarations: _ = try store.declarations(of: breaker.name)
    case .existing: _ = try store.existingBreaker(breaker.name)
    case .reset: try breaker.reset()
    case .trip: try breaker.trip()
    case .force: try breaker.force(.observe)
    case .policy: try breaker.overridePolicy(set: [.openFor: "1m"])
    case .delete: _ = try store.delete(breaker.name)
    case .declaring: try await store.breaker("another", policy: .http).acquire().fail()
    case .connecting: try store.connect()
    case .following: for await _ in store.followHistory(after: 0) {}
    case .hook: await store.handleHistory(as: "blocked") { _ in }
    case .closing: store.close()
    }
  }

  /// Whether the call continues until its task is cancelled.
  var isEndless: Bool { self == .following || self == .hook }

  /// The child's side: makes one call, and reports the seconds it took.
  static func run(_ call: String, in room: Room, isWarm: Bool) throws {
    guard let call = BlockedCall(rawValue: call) else { throw BenchError("no call '\(call)'") }
    Task {
      do {
        Parent.report([try await call.silence(in: room, isWarm: isWarm)])
      } catch {
        complain("\(call): \(error)")
      }
      exit(0)
    }
    while true { pause() }
  }

  /// The milliseconds of the call that blocked its thread for the longest time.
  static func longest(_ hold: Hold, in room: Room) throws -> Double {
    try hold.calls.map { call in
      let room = try room.inner("\(hold)-\(call)")
      if hold != .maker { try make(room) }
      let words = [call.rawValue, room.path, hold == .writer ? "1" : "0"]
      let child = try Children.start(.blocks, words)
      guard try child.line() == "ready" else { throw BenchError("a child did not get ready") }
      let holder = try Holder(room.store, hold.sql)
      try child.send("\(seconds())")
      let milliseconds = (try Children.numbers(child).first ?? .nan) * 1e3
      withExtendedLifetime(holder) {}
      return milliseconds
    }.max() ?? .nan
  }

  private static func make(_ room: Room) throws {
    let store = SharedStore(path: room.store)
    try store.breaker("blocked").acquire().fail()
    store.close()
  }
}

/// An actor that beats while its thread is free.
actor Pulse {
  private var last = seconds()
  private var longest = 0.0

  /// The longest silence, in seconds, while a call is made on this actor.
  func longestSilence(
    of call: BlockedCall, on breaker: Breaker, of store: SharedStore, _ token: PermitToken?
  ) async -> Double {
    let heart = Task { while !Task.isCancelled { await beat() } }
    await beat()
    let course = Task {
      note()
      // Only the time of the call counts, not whether it failed.
      try? await call.make(on: breaker, of: store, token)
      note()
    }
    if call.isEndless {
      try? await Task.sleep(for: .seconds(2))
      course.cancel()
    }
    await course.value
    heart.cancel()
    await heart.value
    return longest
  }

  private func beat() async {
    note()
    try? await Task.sleep(for: .milliseconds(1))
  }

  private func note() {
    let now = seconds()
    longest = max(longest, now - last)
    last = now
  }
}
