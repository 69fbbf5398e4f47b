internal import ProgramKit
internal import SharedBreaker
internal import Synchronization

/// What a relay has refused, so that each kind of refusal is reported once for each host.
final class Refusals: Sendable {
  private struct Known: Hashable {
    var kind: Refusal.Kind
    var host: String?
  }

  private let known = Mutex<Set<Known>>([])

  /// The most that are remembered; a server full of nonsense must not fill the memory.
  private static let room = 1_000

  /// Notes a refusal; returns whether it is the first of its kind from its host.
  func note(_ refusal: Refusal) -> Bool {
    known.withLock { known in
      known.count < Self.room
        && known.insert(Known(kind: refusal.kind, host: refusal.host)).inserted
    }
  }
}

extension RelayContext {
  /// Whether the relay is to end.
  var isStopped: Bool { stop.isRaised }

  /// Counts a refused message, and reports it if it is the first of its kind from its host.
  func refuse(_ refusal: Refusal) {
    health.change { $0.refused += 1 }
    guard refusals.note(refusal) else { return }
    let sender = refusal.host.map { "host \($0)" } ?? "an unknown host"
    log.report(
      .refused,
      "refused a message of \(sender): \(refusal.description); more like it are not reported")
  }

  /// Counts what came of news.
  func count(_ verdicts: [FleetVerdict], on news: [FleetNews]) {
    let applied = verdicts.count { $0 == .applied }
    health.change { $0.applied += Int64(applied) }
    for (verdict, piece) in zip(verdicts, news) {
      guard case .refused(let why) = verdict else { continue }
      let sender: String? =
        switch piece {
        case .command(let command), .remembered(let command): command.host
        case .recovery(_, let host): host
        default: nil
        }
      refuse(Refusal(.command, host: sender, why))
    }
  }
}
