internal import BreakerCore

/// What a transaction that hears of other hosts can read and write.
protocol FleetPlace {
  var now: Moment { get }

  /// Whether anything was changed.
  var hasChanged: Bool { get }

  /// The latest command about each aspect of a breaker.
  func registers(of name: String) throws(StoreError) -> [FleetAspect: FleetRegister]

  /// Whether there is room for what is said of one more breaker that this host does not have.
  func hasRoomForStrangers() throws(StoreError) -> Bool

  /// Keeps a register in the place of an earlier one about the same aspect.
  mutating func keep(_ register: FleetRegister) throws(StoreError)

  /// Forgets or corrects every command with a higher stamp than this, told to others or not.
  ///
  /// - Returns: The highest stamp that a command has then; 0 if there is none.
  mutating func correct(stampsAbove latest: Int64, of host: String) throws(StoreError) -> Int64

  /// Takes a step on a breaker, which counts as a change if it changes the breaker.
  ///
  /// - Returns: What happened; nil if there is no such breaker, and none may be created.
  /// - Throws: With the kind `tooManyBreakers` if there is no room for it; then others can be
  ///   changed nevertheless.
  mutating func step(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> Void
  ) throws(StoreError) -> [BreakerEvent]?
}
