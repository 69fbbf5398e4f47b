internal import BreakerCore
internal import BreakerStore

/// The calls under way on a breaker that have taken room, and the callers that wait, at one moment.
///
/// It is read without taking part, and without delaying any caller. Calls that began before the
/// file of the slots was deleted or replaced are not in it. Without `max-concurrent`, only calls of a ramp and under a
/// `rate` take room, and of these no more than 1,024 are shown.
public struct LimitSnapshot: Sendable, Hashable {
  /// How many units are under way; what ended processes have left does not count.
  ///
  /// After `max-concurrent` was lowered, it can be more than that.
  public let unitsInUse: Int

  /// The calls under way.
  public let calls: [Participant]

  /// The callers that wait, in the order in which they are served.
  public let waiters: [Participant]

  /// How long callers have waited.
  public let waits: Waits

  /// Whether a call of one unit would find room now, beside a rate.
  let hasRoom: Bool

  /// A call under way, or a caller that waits.
  public struct Participant: Sendable, Hashable {
    /// The process; nil if it is not known.
    ///
    /// In another PID namespace this is its number there.
    public let pid: Int32?

    /// The name of the process's program; nil if it cannot be looked up from here.
    public let program: String?

    /// The name of the command that `cbctl run` runs for this call, without its arguments; nil for all
    /// other programs, or if it cannot be looked up from here.
    public let command: String?

    /// Whether a signal has stopped the process, so that its call does not go on.
    ///
    /// It is false for a process that cannot be looked up from here.
    public let isStopped: Bool

    /// How many units the call takes.
    public let units: Int

    /// For how long the call has been under way, or the caller has waited.
    public let age: Duration

    /// Whether the call is a background call, which leaves what is reserved to all others.
    public let isBackground: Bool

    /// Whether the process has ended, so that the next one who looks frees what it had.
    public let isOwnerGone: Bool

    /// Whether a caller that waits did not come when it was its turn, as one that is stopped; the others
    /// do not wait for it.
    public let isAbsent: Bool
  }

  /// How long callers have waited, counted since the host booted or the file of the slots was made.
  public struct Waits: Sendable, Hashable {
    /// Counts of callers that had their turn, by how long they waited for it.
    public let buckets: [Bucket]

    /// How long these have waited together.
    public let total: Duration

    /// How many callers have left without their turn: out of time, cancelled, or because the breaker
    /// opened.
    public let abandoned: Int64

    /// How many callers had their turn after a wait.
    public var count: Int64 { buckets.reduce(0) { $0 + $1.count } }

    /// How many callers waited for at most a time, and for longer than that of the bucket before.
    public struct Bucket: Sendable, Hashable {
      /// The longest wait in the bucket; nil in the last one, which has no end.
      public let atMost: Duration?

      /// How many callers waited for so long.
      public let count: Int64
    }
  }
}

extension LimitSnapshot {
  init(
    _ state: SlotState, under limit: CallLimit, inRamp: Bool,
    look: (ProcessIdentity) -> SeenProcess?
  ) {
    unitsInUse = state.usage.total
    calls = state.calls.map { Participant($0, look) }
    waiters = state.waiters.map { Participant($0, look) }
    hasRoom = state.hasRoom(under: limit, inRamp: inRamp)
    let bounds = SlotWaits.bounds.map { Duration?.some(.nanoseconds($0)) } + [nil]
    waits = Waits(
      buckets: zip(bounds, state.waits.counts).map { .init(atMost: $0, count: $1) },
      total: .nanoseconds(state.waits.nanoseconds), abandoned: state.waits.abandoned)
  }
}

extension LimitSnapshot.Participant {
  fileprivate init(_ participant: SlotParticipant, _ look: (ProcessIdentity) -> SeenProcess?) {
    let seen = participant.process.flatMap(look)
    pid = participant.process?.pid
    program = seen?.program
    command = seen?.command
    isStopped = seen?.isStopped ?? false
    units = participant.claim.units
    age = .nanoseconds(participant.nanoseconds)
    isBackground = participant.claim.priority == .background
    isOwnerGone = participant.isGone
    isAbsent = participant.isAbsent
  }
}
