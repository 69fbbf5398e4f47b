internal import ProgramKit
internal import SharedBreaker
internal import Synchronization

/// What all parts of a relay work with.
struct RelayContext: Sendable {
  let options: RelayOptions
  let store: SharedStore
  let keys: FleetKeys
  let health = RelayHealth()
  let refusals = Refusals()
  let log: RelayLog
  let manager: ServiceManager

  let course = RelayCourse()

  /// Tells this run of the relay from another one of the same host.
  let run = String(UInt64.random(in: .min ... .max), radix: 16)

  /// Raised when the relay is to end, and never lowered.
  let stop: WakePipe

  /// Called after each step that a crash could separate from the next one; for tests.
  let onStep: @Sendable (RelayStep) -> Void

  /// How long to wait for the server.
  static let patience = Duration.seconds(3)
}

/// The steps of a relay between which a crash may come.
package enum RelayStep: String, Sendable, CaseIterable {
  case claimed, connected, read, remembered, toldLost, toldEvidence, described
  case told, forgotten, listening, received, applied, beaten
}

/// What one session leaves to the next.
final class RelayCourse: Sendable {
  struct Notes: Sendable {
    /// Whether this run of the relay has ever shown on the server that it is alive.
    var hasBeenSeen = false

    /// How many hosts the fleet had when that was last known.
    var hostsSeen = 1

    /// The command whose stamp is ahead of the server's clock, which was reported.
    var aheadOf: Int64?
  }

  private let notes = Mutex(Notes())

  var now: Notes { notes.withLock { $0 } }

  func change(_ body: @Sendable (inout Notes) -> Void) { notes.withLock { body(&$0) } }
}
