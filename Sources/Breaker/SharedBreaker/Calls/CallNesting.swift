internal import BreakerCore
internal import BreakerStore
public import CHost
internal import Glibc
internal import Synchronization

/// The calls under a limit that the current task or thread is inside of.
///
/// A call inside of a call of the same breaker uses the room of the outer one: if it asked for
/// more, it could wait for itself. A thread knows it while the work of a call runs, tasks hand it
/// down to their children, and `cbctl run` to its command in the environment. The room is worth
/// nothing once the outer call has ended, because its slot is looked up each time.
@usableFromInline enum CallNesting {
  /// A call that a task is inside of.
  private final class Surrounding: Sendable {
    let held: HeldSlot

    /// The call that this one is inside of.
    let outer: Surrounding?

    init(_ held: HeldSlot, in outer: Surrounding?) {
      self.held = held
      self.outer = outer
    }
  }

  /// Makes globals that Swift would make at the first call, which a child forked meanwhile could
  /// not.
  static func prepare() { _ = (innermost, mayInherit, isOutermostOfTask) }

  /// The innermost call around one that is about to begin.
  enum Surroundings {
    case nothing

    /// A call of this process.
    case own(HeldSlot)

    /// A call of a process that has started this one.
    case inherited
  }

  @TaskLocal private static var innermost: Surrounding?

  /// The calls that can surround code of this process, as far as it is known.
  ///
  /// One load tells, while looking for the calls of a task would take longer than taking a slot.
  private static let reach = Atomic<UInt8>(Reach.unknown)

  private enum Reach {
    static let unknown: UInt8 = 0

    /// Only the calls of its thread: no process has handed any down, and no task has made one yet.
    static let thread: UInt8 = 1

    /// The calls of its task too.
    static let task: UInt8 = 2
  }

  /// Whether no call surrounds the current code.
  @inline(__always) static var isOutermost: Bool {
    unsafe sb_innermost()?.pointee == nil
      && (reach.load(ordering: .relaxed) == Reach.thread || isOutermostOfTask)
  }

  @inline(never) private static var isOutermostOfTask: Bool {
    guard innermost == nil, !mayInherit else { return false }
    // Only if it is unknown: a task may have made a call meanwhile.
    _ = reach.compareExchange(
      expected: Reach.unknown, desired: Reach.thread, ordering: .relaxed)
    return true
  }

  static func inside<Result, Failure: Error>(
    _ ticket: Ticket, _ work: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    guard let held = ticket.held else { return try work() }
    return try inside(room: held.bits, work)
  }

  /// Runs work inside of a call that has taken room.
  ///
  /// No task is suspended meanwhile, so the thread can remember the call; a task-local value would be
  /// allocated.
  @inlinable static func inside<Result, Failure: Error>(
    room: UInt64, _ work: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    guard let innermost = unsafe sb_innermost() else { return try work() }
    var call = unsafe sb_inside(outer: innermost.pointee, call: room)
    return try unsafe withUnsafeMutablePointer(to: &call) { call throws(Failure) -> Result in
      unsafe innermost.pointee = unsafe UnsafePointer(call)
      defer { unsafe innermost.pointee = unsafe call.pointee.outer }
      return try work()
    }
  }

  static nonisolated(nonsending) func inside<Result>(
    _ ticket: Ticket, _ work: nonisolated(nonsending) () async throws -> Result
  ) async rethrows -> Result {
    guard let held = ticket.held else { return try await work() }
    // Before the task has the call, so that the task and its children see both.
    if reach.load(ordering: .relaxed) != Reach.task { reach.store(Reach.task, ordering: .relaxed) }
    return try await $innermost.withValue(Surrounding(held, in: innermost)) { try await work() }
  }

  /// The call still under way on some slots that surrounds the current code, if there is one.
  ///
  /// - Parameters:
  ///   - slots: The slots.
  ///   - others: Calls that surround it besides those of its thread and task, as the caller knows.
  /// - Returns: The call, or nothing.
  static func surroundings(
    on slots: SlotBlock, besides others: OuterCalls = OuterCalls()
  ) -> Surroundings {
    var call = unsafe sb_innermost()?.pointee
    while let inner = unsafe call {
      let held = unsafe HeldSlot(bits: inner.pointee.call)
      if let held, slots.isUnderWay(held) { return .own(held) }
      unsafe call = inner.pointee.outer
    }
    var surrounding = innermost
    while let inner = surrounding {
      if slots.isUnderWay(inner.held) { return .own(inner.held) }
      surrounding = inner.outer
    }
    if let held = others.call(on: slots) { return .own(held) }
    return inherited.contains { slots.isUnderWay($0) } ? .inherited : .nothing
  }

  /// The calls that surround the current code in its task and thread.
  static var surrounding: [HeldSlot] {
    var all: [HeldSlot] = []
    var surrounding = innermost
    while let inner = surrounding {
      all.append(inner.held)
      surrounding = inner.outer
    }
    var call = unsafe sb_innermost()?.pointee
    while let inner = unsafe call {
      if let held = unsafe HeldSlot(bits: inner.pointee.call) { all.append(held) }
      unsafe call = inner.pointee.outer
    }
    return all
  }

  /// Whether a call of this process may be inside of one of another process.
  static var mayInherit: Bool { !inherited.isEmpty }

  /// The variable by which a command is told which calls it is inside of.
  static let variable = "SHARED_BREAKER_INSIDE"

  /// The calls that this process was started inside of.
  static let inherited: [InheritedSlot] = {
    guard let value = unsafe getenv(variable) else { return [] }
    return unsafe String(cString: value).split(separator: " ").compactMap {
      InheritedSlot(String($0))
    }
  }()

  /// The value of the variable for a command inside of some calls, the innermost last.
  ///
  /// It does not grow without bound where each process starts its successor inside of a call that the process cannot
  /// know the end of: the system starts no program with a longer entry than 128 KiB.
  static func text(_ calls: [InheritedSlot]) -> String {
    calls.suffix(mostHandedDown).map(\.description).joined(separator: " ")
  }

  /// With the longest names of calls, these are 100 KB.
  private static let mostHandedDown = 1_000
}

/// The calls that surround a call besides those of its thread and task, as its caller knows.
package struct OuterCalls: Sendable {
  /// The room of one of them; 0 if there is none.
  private let room: UInt64
  private let rooms: [UInt64]?

  @inline(__always) package init(_ rooms: [UInt64]? = nil, and room: UInt64 = 0) {
    self.rooms = rooms
    self.room = room
  }

  @inline(__always) var isEmpty: Bool { room == 0 && rooms == nil }

  /// The first of them that is still under way on some slots; nil if none is.
  func call(on slots: SlotBlock) -> HeldSlot? {
    if let held = HeldSlot(bits: room), slots.isUnderWay(held) { return held }
    guard let rooms else { return nil }
    for room in rooms {
      if let held = HeldSlot(bits: room), slots.isUnderWay(held) { return held }
    }
    return nil
  }
}

extension Permit {
  /// The environment that puts a command inside of this call, and of those that surround the
  /// current code; empty if the call is under no limit.
  ///
  /// A command that runs inside of a call makes its own calls of the same breaker with the room of
  /// that one, as code inside of `run` does. The values are worth nothing once the call has ended.
  ///
  /// ```swift
  /// process.environment = environment.merging(permit.environment) { $1 }
  /// ```
  public var environment: [String: String] { breaker.environment(of: ticket) }
}

extension Breaker {
  /// The environment that puts a command inside of the calls that surround the current code; empty
  /// if none of them is under a limit.
  ///
  /// ```swift
  /// try gpu.run {
  ///   process.environment = environment.merging(gpu.environment) { $1 }
  ///   try process.run()
  /// }
  /// ```
  ///
  /// A command that runs inside of a call makes its own calls of the same breaker with the room of
  /// that one. Calls of other breakers that surround the current code are handed down too. The
  /// values are worth nothing once the calls have ended. For a permit, which surrounds nothing,
  /// there is ``Permit/environment``.
  public var environment: [String: String] {
    engine.environment(ofRooms: []).map { [CallNesting.variable: $0] } ?? [:]
  }

  fileprivate func environment(of ticket: Ticket) -> [String: String] {
    guard let room = ticket.held ?? ticket.outer else { return [:] }
    return engine.environment(ofRooms: [room]).map { [CallNesting.variable: $0] } ?? [:]
  }
}

extension Engine {
  /// The value of the variable that puts a command inside of some calls and of those that surround
  /// the current code; nil if none of them is under way, or can be named.
  func environment(ofRooms rooms: [HeldSlot]) -> String? {
    var named: [InheritedSlot] = []
    var outer = CallNesting.inherited
    for held in CallNesting.surrounding + rooms {
      guard let slots = look({ $0.knowledge.limit(of: held) })?.slots,
        let inherited = slots.inheritance(of: held), !named.contains(inherited)
      else { continue }
      named.append(inherited)
      // Where each process starts the next one, the calls that have ended would become ever more.
      outer.removeAll { slots.hasEnded($0) }
    }
    return named.isEmpty ? nil : CallNesting.text(outer + named)
  }
}

extension SharedStore {
  /// The entry of an environment by which a command is inside of some calls, given by the bits of their
  /// rooms, and of those that surround the current code; nil if none of them is under way.
  package func environmentEntry(ofRooms rooms: [UInt64]) -> String? {
    engine.environment(ofRooms: rooms.compactMap { HeldSlot(bits: $0) }).map {
      "\(CallNesting.variable)=\($0)"
    }
  }
}
