internal import BreakerCore

/// What a transaction that hears of other hosts can read and write.
protocol FleetPlace {
  var now: Moment { get }

  /// Whether anything was changed.
  var hasChanged: Bool { get }

  /// The latest command about each aspect of a breaker.
  func registers(of name: String) throws(StoreError) -> [FleetAspect: FleetRegister]

  /// Keeps a register in the place of an earlier one about the same aspect.
  mutating func keep(_ register: FleetRegister) throws(StoreError)

  /// Forgets every command with a higher stamp than this, told to others or not.
  ///
  /// - Returns: The highest stamp of the commands that are left; 0 if none is.
  mutating func forget(stampsAbove latest: Int64) throws(StoreError) -> Int64

  /// Takes a step on a breaker, which counts as a change if it changes the breaker.
  ///
  /// - Returns: What happened; nil if there is no such breaker, and none may be created.
  /// - Throws: With the kind `tooManyBreakers` if there is no room for it; then others can be
  ///   changed nevertheless.
  mutating func step(
    _ name: String, orCreate: Bool, _ body: (inout BreakerDraft) -> Void
  ) throws(StoreError) -> [BreakerEvent]?
}
