internal import BreakerCore
internal import BreakerStore
internal import CHost
internal import Glibc

/// The calls under a limit that the current task or thread is inside of.
///
/// A call inside of a call of the same breaker uses the room of the outer one: if it asked for more, it
/// could wait for itself. A thread knows it while the work of a call runs, tasks hand it down to their
/// children, and `cbctl run` to its command in the environment. What is handed down is worth nothing once the outer call has ended, because its slot is
/// looked up each time.
enum CallNesting {
  /// The room that each of these calls has.
  struct Calls: Sendable {
    private var latest: HeldSlot?
    private var others: [HeldSlot] = []

    func adding(_ held: HeldSlot) -> Calls {
      var calls = self
      // Calls are seldom nested, and one needs no array.
      if let latest { calls.others.append(latest) }
      calls.latest = held
      return calls
    }

    func contains(where isSo: (HeldSlot) -> Bool) -> Bool {
      latest.map(isSo) ?? false || others.contains(where: isSo)
    }
  }

  @TaskLocal private static var calls = Calls()

  /// Runs work inside of a call.
  ///
  /// No task is suspended meanwhile, so the thread can remember the call; a task-local value would be
  /// allocated.
  static func inside<Result, Failure: Error>(
    _ ticket: Ticket, _ work: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    guard let held = ticket.held else { return try work() }
    let outer = unsafe sb_innermost()
    var call = unsafe sb_inside(outer: outer, call: held.bits)
    return try unsafe withUnsafeMutablePointer(to: &call) { call throws(Failure) -> Result in
      unsafe sb_set_innermost(call)
      defer { unsafe sb_set_innermost(outer) }
      return try work()
    }
  }

  static nonisolated(nonsending) func inside<Result>(
    _ ticket: Ticket, _ work: nonisolated(nonsending) () async throws -> Result
  ) async rethrows -> Result {
    guard let held = ticket.held else { return try await work() }
    return try await $calls.withValue(calls.adding(held)) { try await work() }
  }

  /// Whether a call that is still under way on these slots surrounds the current code.
  static func isInside(_ slots: any CallSlots) -> Bool {
    var call = unsafe sb_innermost()
    while let inner = unsafe call {
      let held = unsafe HeldSlot(bits: inner.pointee.call)
      if let held, slots.isUnderWay(held) { return true }
      unsafe call = inner.pointee.outer
    }
    return calls.contains { slots.isUnderWay($0) }
      || inherited.contains { slots.isUnderWay($0) }
  }

  /// Whether a call of this process may be inside of one of another process.
  static var mayInherit: Bool { !inherited.isEmpty }

  /// The variable by which a command is told which calls it is inside of.
  static let variable = "SHARED_BREAKER_INSIDE"

  /// The calls that this process was started inside of.
  private static let inherited: [InheritedSlot] = text.split(separator: " ").compactMap {
    InheritedSlot(String($0))
  }

  private static let text: String = {
    guard let value = unsafe getenv(variable) else { return "" }
    return unsafe String(cString: value)
  }()

  /// The value of the variable for a command inside of one more call.
  static func text(adding inherited: InheritedSlot) -> String {
    text.isEmpty ? inherited.description : "\(text) \(inherited.description)"
  }
}

extension Permit {
  /// What a command has to find in its environment to be inside of this call; empty if the call is under
  /// no limit.
  ///
  /// A command that runs inside of a call makes its own calls of the same breaker with the room of that
  /// one, as code inside of `run` does. What you set is worth nothing once the call has ended.
  ///
  /// ```swift
  /// process.environment = environment.merging(permit.environment) { $1 }
  /// ```
  public var environment: [String: String] { breaker.environment(of: ticket) }
}

extension Breaker {
  fileprivate func environment(of ticket: Ticket) -> [String: String] {
    guard let held = ticket.held, let inherited = engine.inheritance(of: held, on: cell) else {
      return [:]
    }
    return [CallNesting.variable: CallNesting.text(adding: inherited)]
  }
}
